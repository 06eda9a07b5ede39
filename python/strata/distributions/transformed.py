"""A distribution of transformed numbers, and the named distributions that are defined by a transform."""

import math

import strata
from strata.nn.functional import softplus

from . import constraints
from .categorical import OverCategories
from .combined import Independent
from .counts import ProbsOrLogits
from .distribution import Distribution
from .location_scale import Cauchy, Normal, Uniform
from .positive import Exponential, Gamma
from .transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from .utils import broadcast_all, clamp_probs, euler_constant, probs_to_logits, size, standard, sum_rightmost

__all__ = [
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "TransformedDistribution",
    "Weibull",
]


class TransformedDistribution(Distribution):
    """The distribution of transforms(x) where x has the base distribution."""

    arg_constraints = {}
    _parameters = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        transform = ComposeTransform(self.transforms)
        base_shape = size(base_distribution.batch_shape, base_distribution.event_shape)
        base_events, needed = len(base_distribution.event_shape), transform.domain.event_dim
        if len(base_shape) < needed:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {needed}, but got {base_shape}."
            )
        shape = transform.forward_shape(base_shape)
        full_shape = size(transform.inverse_shape(shape))
        if full_shape != base_shape:  # parameters of the transform are larger
            base_distribution = base_distribution.expand(full_shape[: len(full_shape) - base_events])
        if needed > base_events:
            base_distribution = Independent(base_distribution, needed - base_events)
        self.base_dist = base_distribution
        cut = len(shape) - transform.codomain.event_dim - max(base_events - needed, 0)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        shape = size(batch_shape, self.event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    @strata.no_grad()
    def sample(self, sample_shape=()):
        return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        y, total, event_dim = self._checked(value), 0.0, len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(slope, event_dim - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """Probabilities of the base distribution from those of this one, and back: a decreasing map reverses them."""
        sign = math.prod(transform.sign for transform in self.transforms)
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotonize_cdf(self.base_dist.cdf(self.base_dist._checked(value)))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal."""

    arg_constraints = Normal.arg_constraints
    support = constraints.positive
    _parameters = {}

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.square() / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self):
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class Half(TransformedDistribution):
    """The absolute value of numbers with a distribution that is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _parameters = {}

    def __init__(self, scale, validate_args=None):
        base = self._base(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mode = property(lambda self: strata.zeros_like(self.scale))

    def log_prob(self, value):
        value = self._checked(value)
        return strata.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value):
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """The absolute value of normal numbers."""

    _base = Normal
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.square() * (1 - 2 / math.pi))


class HalfCauchy(Half):
    """The absolute value of Cauchy numbers."""

    _base = Cauchy
    mean = property(lambda self: strata.full_like(self.scale, math.inf))
    variance = property(lambda self: self.base_dist.variance)


class Gumbel(TransformedDistribution):
    """The distribution of the largest of many numbers."""

    arg_constraints = Normal.arg_constraints
    support = constraints.real
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = strata.finfo(self.loc.dtype)
        base = Uniform(
            strata.full_like(self.loc, info.tiny), strata.full_like(self.loc, 1 - info.eps), validate_args=False
        )
        parts = [ExpTransform().inv, AffineTransform(0, -1), ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev.square())

    def log_prob(self, value):
        y = (self.loc - self._checked(value)) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)


class InverseGamma(TransformedDistribution):
    """The reciprocal of gamma numbers."""

    arg_constraints = Gamma.arg_constraints
    support = constraints.positive
    _parameters = {}

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self):
        return strata.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def variance(self):
        c = self.concentration
        return strata.where(c > 2, self.rate.square() / ((c - 1).square() * (c - 2)), math.inf)

    def entropy(self):
        c = self.concentration
        return c + self.rate.log() + strata.lgamma(c) - (1 + c) * strata.digamma(c)


def _unit_uniform(like):
    return Uniform(strata.zeros_like(like), strata.ones_like(like), validate_args=False)


class Kumaraswamy(TransformedDistribution):
    """A distribution over [0, 1] with the distribution function 1 - (1 - x^concentration1)^concentration0."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        parts = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(_unit_uniform(self.concentration0), parts, validate_args=validate_args)

    def _moment(self, n):
        b, above = self.concentration0, 1 + n / self.concentration1
        return b * (strata.lgamma(above) + strata.lgamma(b) - strata.lgamma(above + b)).exp()

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean.square())

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1)
        return strata.where(inside, ((a - 1) / (a * b - 1)).pow(1 / a), math.nan)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = strata.digamma(b + 1) + euler_constant
        return 1 - 1 / b + (1 - 1 / a) * harmonic - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Points of the simplex, from normal vectors with one element less by breaking a stick."""

    arg_constraints = Normal.arg_constraints
    support = constraints.simplex
    _parameters = {}

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)


class Pareto(TransformedDistribution):
    """Numbers above scale whose density falls as a power."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _parameters = {"scale": 0, "alpha": 0}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    mode = property(lambda self: self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self):
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Weibull(TransformedDistribution):
    """The Weibull distribution: a power of exponential numbers."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _parameters = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(strata.ones_like(self.scale), validate_args=validate_args)
        parts = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    def _moment(self, n):
        return strata.lgamma(1 + n * self.concentration_reciprocal).exp()

    mean = property(lambda self: self.scale * self._moment(1))
    variance = property(lambda self: self.scale.square() * (self._moment(2) - self._moment(1).square()))

    @property
    def mode(self):
        return self.scale * ((self.concentration - 1) / self.concentration).pow(self.concentration_reciprocal)

    def entropy(self):
        return euler_constant * (1 - self.concentration_reciprocal) + (self.scale / self.concentration).log() + 1


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The logit of a relaxed Bernoulli number (Maddison et al., 2017)."""

    support = constraints.real
    has_rsample = True
    _parameters = ProbsOrLogits._parameters

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        name, value = self._choose(probs, logits)
        self._broadcast(validate_args, **{name: value})

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape=()):
        u = clamp_probs(standard(self._extended_shape(sample_shape), "uniform_", self._param))
        logits = probs_to_logits(clamp_probs(self.probs), is_binary=True)
        return (probs_to_logits(u, is_binary=True) + logits) / self.temperature

    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, self._checked(value))
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that approach Bernoulli numbers as the temperature falls, with a gradient."""

    arg_constraints = ProbsOrLogits.arg_constraints
    support = constraints.unit_interval
    _parameters = {}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class ExpRelaxedCategorical(OverCategories):
    """The logarithm of relaxed one-hot vectors (Maddison et al., 2017; Jang et al., 2017)."""

    support = constraints.real_vector
    has_rsample = True
    _parameters = {}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape=()):
        u = clamp_probs(standard(self._extended_shape(sample_shape), "uniform_", self._param))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value):
        n = self.event_shape[-1]
        logits, value = broadcast_all(self.logits, self._checked(value))
        scores = logits - value * self.temperature
        scores = (scores - scores.logsumexp(-1, keepdim=True)).sum(-1)
        return scores + math.lgamma(n) + (n - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex that approach one-hot vectors as the temperature falls, with a gradient."""

    arg_constraints = OverCategories.arg_constraints
    support = constraints.simplex
    _parameters = {}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)
