"""Kullback-Leibler divergences: a table of functions for pairs of distributions.

Most pairs are E_p[-log q] - H(p), the cross entropy minus the entropy. The cross entropy with q needs only a few
expectations under p (its mean, its variance, E log x), so one function per q serves many p.
"""

import math
import warnings

import strata
from strata.linalg import solve_triangular
from strata.nn.functional import softplus

from .categorical import Categorical, OneHotCategorical
from .combined import Independent
from .counts import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from .distribution import HALF_LOG_TWO_PI, ExponentialFamily
from .location_scale import Cauchy, Laplace, Normal, Uniform
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, half_log_determinant, mahalanobis
from .positive import Beta, Dirichlet, Exponential, Gamma
from .transformed import Gumbel, HalfNormal, Pareto, TransformedDistribution
from .utils import euler_constant, size, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

_REGISTRY = {}
_FOUND = {}  # the function of each pair of types that was asked for


def register_kl(type_p, type_q):
    """A decorator that registers a function of (p, q) for two classes and their subclasses."""
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        # A library may have a base class of its own whose metaclass counts other classes as subclasses.
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a class of distributions but got {given}")

    def register(function):
        _REGISTRY[type_p, type_q] = function
        _FOUND.clear()
        return function

    return register


def _steps(kind, base):
    """How far a base class is from a class; one that a metaclass counts as a base is behind all others."""
    order = kind.__mro__
    return order.index(base) if base in order else len(order)


def _find(type_p, type_q):
    """The registered function with the closest base classes; p decides where p and q disagree."""
    matches = [pair for pair in _REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return None

    def distance(pair):
        return _steps(type_p, pair[0]), _steps(type_q, pair[1])

    by_p = min(matches, key=distance)
    by_q = min(matches, key=lambda pair: distance(pair)[::-1])
    if _REGISTRY[by_p] is not _REGISTRY[by_q]:
        names = [f"kl_divergence({p.__name__}, {q.__name__})" for p, q in (by_p, by_q)]
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, "
            f"{by_q[1].__name__}); using {names[0]} instead of {names[1]}.",
            RuntimeWarning,
            stacklevel=3,
        )
    return _REGISTRY[by_p]


def kl_divergence(p, q):
    """The Kullback-Leibler divergence of p from q, in the batch shape."""
    pair = (type(p), type(q))
    if pair not in _FOUND:
        _FOUND[pair] = _find(*pair)
    if _FOUND[pair] is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
        )
    return _FOUND[pair](p, q)


def _infinite_where(condition, value):
    return strata.where(condition, math.inf, value)


# --- from expectations ------------------------------------------------------------------------------------------------
def _mean_log(p):
    """E log x."""
    if isinstance(p, Beta):
        return strata.digamma(p.concentration1) - strata.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _uniform_mean_log(p.low, p.high)


def _uniform_mean_log(low, high):
    return (strata.xlogy(high, high) - strata.xlogy(low, low)) / (high - low) - 1


def _mean_exp(p, t):
    """E exp(t x) for t < 0: the moment-generating function."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate - t)
    if isinstance(p, Gamma):
        return (1 - t / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return (t * p.loc + 0.5 * (t * p.scale).square()).exp()
    return ((t * p.high).exp() - (t * p.low).exp()) / (t * (p.high - p.low))


def _to_normal(p, q):
    square = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return 0.5 * square + HALF_LOG_TWO_PI + q.scale.log() - p.entropy()


def _to_exponential(p, q):
    return q.rate * p.mean - q.rate.log() - p.entropy()


def _to_gamma(p, q):
    c = q.concentration
    norm = strata.lgamma(c) - c * q.rate.log()
    return norm - (c - 1) * _mean_log(p) + q.rate * p.mean - p.entropy()


def _to_gumbel(p, q):
    cross = q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * _mean_exp(p, -1 / q.scale)
    return cross - p.entropy()


def _to_continuous_bernoulli(p, q):
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm() - p.entropy()


def _unit_to_uniform(p, q):
    return _infinite_where((q.low > 0) | (q.high < 1), (q.high - q.low).log() - p.entropy())


def _uniform_where(bad):
    """The formula for q, infinite where the uniform distribution p leaves the support of q."""
    return lambda formula: lambda p, q: _infinite_where(bad(p, q), formula(p, q))


_if_negative = _uniform_where(lambda p, q: p.low < 0)
_if_outside = _uniform_where(lambda p, q: (p.low < 0) | (p.high > 1))


def _pareto_above(least):
    """The formula for q, infinite with a zero gradient where alpha is at most `least` and the moments are infinite."""

    def guard(formula):
        def divergence(p, q):
            finite = p.alpha > least
            safe = Pareto(p.scale, strata.where(finite, p.alpha, least + 1.0), validate_args=False)
            return _infinite_where(~finite, formula(safe, q))

        return divergence

    return guard


def _uniform_beta(p, q):
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _uniform_mean_log(p.low, p.high) + (b - 1) * _uniform_mean_log(1 - p.high, 1 - p.low)
    return strata.lgamma(a) + strata.lgamma(b) - strata.lgamma(a + b) - logs - p.entropy()


def _uniform_pareto(p, q):
    cross = (q.alpha + 1) * _uniform_mean_log(p.low, p.high) - q.alpha.log() - q.alpha * q.scale.log()
    return _infinite_where(p.low < q.scale, cross - p.entropy())


def _normal_laplace(p, q):
    distance = p.loc - q.loc
    z = distance / (math.sqrt(2) * p.scale)
    mean = p.scale * math.sqrt(2 / math.pi) * (-z.square()).exp() + distance * strata.erf(z)
    return (2 * q.scale).log() + mean / q.scale - p.entropy()


def _bernoulli_poisson(p, q):
    return q.rate - p.probs * q.rate.log() - p.entropy()


def _infinite(p, q):
    return p.mean.new_full(strata.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)


_BY_EXPECTATIONS = {
    _to_normal: [(p, Normal) for p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform)],
    _to_exponential: [(p, Exponential) for p in (Beta, ContinuousBernoulli, Gamma)],
    _pareto_above(2)(_to_normal): [(Pareto, Normal)],
    _pareto_above(1)(_to_exponential): [(Pareto, Exponential)],
    _pareto_above(1)(_to_gamma): [(Pareto, Gamma)],
    _if_negative(_to_exponential): [(Uniform, Exponential)],
    _to_gamma: [(p, Gamma) for p in (Beta, Exponential)],
    _if_negative(_to_gamma): [(Uniform, Gamma)],
    _to_gumbel: [(p, Gumbel) for p in (Exponential, Gamma, Normal, Uniform)],
    _to_continuous_bernoulli: [(Beta, ContinuousBernoulli)],
    _if_outside(_to_continuous_bernoulli): [(Uniform, ContinuousBernoulli)],
    _if_outside(_uniform_beta): [(Uniform, Beta)],
    _uniform_pareto: [(Uniform, Pareto)],
    _unit_to_uniform: [(Beta, Uniform), (ContinuousBernoulli, Uniform)],
    _normal_laplace: [(Normal, Laplace)],
    _bernoulli_poisson: [(Bernoulli, Poisson)],
    # p has values outside of the support of q
    _infinite: [
        (Beta, Pareto),
        (ContinuousBernoulli, Pareto),
        *((p, q) for p in (Exponential, Gamma) for q in (Beta, ContinuousBernoulli, Pareto, Uniform)),
        *(
            (p, q)
            for p in (Gumbel, Laplace, Normal)
            for q in (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
        ),
        *((Pareto, q) for q in (Beta, ContinuousBernoulli, Uniform)),
        (Poisson, Bernoulli),
        (Poisson, Binomial),
    ],
}
_REGISTRY.update({pair: function for function, pairs in _BY_EXPECTATIONS.items() for pair in pairs})


# --- within a family --------------------------------------------------------------------------------------------------
def _same(family):
    return register_kl(family, family)


@_same(Bernoulli)
def _bernoulli(p, q):
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = strata.where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, one))
    zero = strata.where(p.probs == 1, 0.0, _infinite_where(q.probs == 1, zero))
    return one + zero


@_same(Beta)
def _beta(p, q):
    return _dirichlet(p._dirichlet, q._dirichlet)


@_same(Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _infinite_where(p.total_count > q.total_count, p.total_count * each)


@_same(Categorical)
def _categorical(p, q):
    terms = _infinite_where((q.probs == 0).expand_as(p.probs), p.probs * (p.logits - q.logits))
    return strata.where(p.probs == 0, 0.0, terms).sum(-1)


@_same(ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    norms = p._cont_bern_log_norm() + (-p.probs).log1p() - q._cont_bern_log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + norms


@_same(Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = strata.lgamma(total) - strata.lgamma(b.sum(-1)) - (strata.lgamma(a) - strata.lgamma(b)).sum(-1)
    return norms + ((a - b) * (strata.digamma(a) - strata.digamma(total).unsqueeze(-1))).sum(-1)


@_same(Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@_same(ExponentialFamily)
def _exponential_family(p, q):
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    ours = [x.detach().requires_grad_() for x in p._natural_params]
    with strata.enable_grad():
        normalizer = p._log_normalizer(*ours)
        gradients = strata.autograd.grad(normalizer.sum(), ours, create_graph=True)
    theirs = q._natural_params
    result = q._log_normalizer(*theirs) - normalizer
    for a, b, gradient in zip(ours, theirs, gradients, strict=True):
        result = result - sum_rightmost((b - a) * gradient, a.dim() - len(p.batch_shape))
    return result


@_same(Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    norms = strata.lgamma(b) - strata.lgamma(a) + b * (p.rate / q.rate).log()
    return norms + (a - b) * strata.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@_same(Gumbel)
def _gumbel(p, q):
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = (strata.lgamma(1 + ratio) - shift).exp()
    return shift - ratio.log() + ratio * euler_constant + tail - (1 + euler_constant)


@_same(Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@_same(HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@_same(Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return ratio * (-distance / p.scale).exp() + distance / q.scale - ratio.log() - 1


@_same(Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@_same(OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@_same(Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.scale < q.scale, value)


@_same(Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@_same(TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions needs equal transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@_same(Uniform)
def _uniform(p, q):
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return _infinite_where((q.low > p.low) | (q.high < p.high), value)


@_same(Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent needs equal reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@_same(Cauchy)
def _cauchy(p, q):
    distance = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return distance.log() - (4 * p.scale * q.scale).log()


# --- normal vectors ---------------------------------------------------------------------------------------------------
def _check_events(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two normal distributions with different event shapes cannot be computed: "
            f"{p.event_shape} and {q.event_shape}"
        )


def _trace_of_quotient(factor, other):
    """The squared elements of factor^-1 other, summed: the trace of the covariances' quotient."""
    batch = strata.broadcast_shapes(factor.shape[:-2], other.shape[:-2])
    factor, other = (m.expand(size(batch, m.shape[-2:])) for m in (factor, other))
    return solve_triangular(factor, other, upper=False).square().sum((-2, -1))


@_same(MultivariateNormal)
def _multivariate_normal(p, q):
    _check_events(p, q)
    trace = _trace_of_quotient(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    distance = mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    logs = half_log_determinant(q._unbroadcasted_scale_tril) - half_log_determinant(p._unbroadcasted_scale_tril)
    return logs + 0.5 * (trace + distance - p.event_shape[0])


def _to_low_rank(p, q, log_determinant, covariance_parts):
    """For p with the covariance sum(part @ part.T): Woodbury's identity with the capacitance of q."""
    distance_inner = (q._weighted() @ (q.loc - p.loc).unsqueeze(-1)).squeeze(-1)
    distance = ((q.loc - p.loc).square() / q._unbroadcasted_cov_diag).sum(-1) - mahalanobis(
        q._capacitance, distance_inner
    )
    trace = 0
    for part in covariance_parts:
        whole = (part.square() / q._unbroadcasted_cov_diag.unsqueeze(-1)).sum((-2, -1))
        trace = trace + whole - _trace_of_quotient(q._capacitance, q._weighted() @ part)
    logs = q._half_log_determinant() - log_determinant
    return logs + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_to_low_rank(p, q):
    _check_events(p, q)
    return _to_low_rank(p, q, half_log_determinant(p._unbroadcasted_scale_tril), [p._unbroadcasted_scale_tril])


@_same(LowRankMultivariateNormal)
def _low_rank(p, q):
    _check_events(p, q)
    return _to_low_rank(
        p, q, p._half_log_determinant(), [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    )


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_to_multivariate(p, q):
    _check_events(p, q)
    parts = [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    trace = sum(_trace_of_quotient(q._unbroadcasted_scale_tril, part) for part in parts)
    distance = mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    logs = half_log_determinant(q._unbroadcasted_scale_tril) - p._half_log_determinant()
    return logs + 0.5 * (trace + distance - p.event_shape[0])
