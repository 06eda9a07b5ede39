"""Distributions of counts and of two outcomes: probabilities or logits of one outcome per element."""

import math

import strata
from strata.nn.functional import logsigmoid

from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import (
    bernoulli_cross_entropy,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    standard,
)

__all__ = ["Bernoulli", "Binomial", "ContinuousBernoulli", "Geometric", "NegativeBinomial", "Poisson"]


class ProbsOrLogits(Distribution):
    """A parameter that is given as probabilities or as logits; the other form is computed when it is first read."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _parameters = {"probs": 0, "logits": 0}
    _is_binary = True

    def _choose(self, probs, logits):
        """The name of the given form, and its value."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return ("probs", probs) if logits is None else ("logits", logits)

    @lazy_property
    def probs(self):
        """The probability of the outcome 1."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @lazy_property
    def logits(self):
        """The logarithm of the odds of the outcome 1."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.shape

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    def _integers(self, n, expand):
        """0 to n - 1 along a new first dimension."""
        values = strata.arange(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self.batch_shape))
        return values.expand((-1, *self.batch_shape)) if expand else values


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability probs, otherwise 0."""

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _parameters = ProbsOrLogits._parameters

    def __init__(self, probs=None, logits=None, validate_args=None):
        name, value = self._choose(probs, logits)
        self._broadcast(validate_args, **{name: value})

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        return strata.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @strata.no_grad()
    def sample(self, sample_shape=()):
        return strata.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        return -bernoulli_cross_entropy(*broadcast_all(self.logits, self._checked(value)))

    def entropy(self):
        return bernoulli_cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        return self._integers(2, expand)

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        return -logsigmoid(-x)


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Numbers in [0, 1] with a density proportional to p^x (1 - p)^(1 - x).

    Between the two `lims` around 1/2, where the formulas divide by almost 0, Taylor's series are used.
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ProbsOrLogits._parameters

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        name, value = self._choose(probs, logits)
        (value,) = broadcast_all(value)
        if name == "probs":
            if validate_args is not None and not self.arg_constraints["probs"].check(value).all():
                raise ValueError("The parameter probs has invalid values")
            value = clamp_probs(value)
        self._lims = lims
        self._broadcast(validate_args, **{name: value})

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new._lims = self._lims

    def _outside_unstable_region(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _by_region(self, formula, series):
        """formula(p) outside of the unstable region, series(p - 1/2) inside."""
        outside = self._outside_unstable_region()
        return strata.where(
            outside, formula(strata.where(outside, self.probs, self._lims[0])), series(self.probs - 0.5)
        )

    def _cont_bern_log_norm(self):
        def formula(p):
            low = strata.where(p <= 0.5, p, 0.0)
            high = strata.where(p >= 0.5, p, 1.0)
            slope = strata.where(p <= 0.5, (-2 * low).log1p(), (2 * high - 1).log())
            return ((-p).log1p() - p.log()).abs().log() - slope

        return self._by_region(formula, lambda x: math.log(2) + (4 / 3 + 104 / 45 * x.square()) * x.square())

    @property
    def mean(self):
        return self._by_region(
            lambda p: p / (2 * p - 1) + 1 / ((-p).log1p() - p.log()),
            lambda x: 0.5 + (1 / 3 + 16 / 45 * x.square()) * x,
        )

    @property
    def variance(self):
        return self._by_region(
            lambda p: p * (p - 1) / (1 - 2 * p).square() + 1 / ((-p).log1p() - p.log()).square(),
            lambda x: 1 / 12 - (1 / 15 - 128 / 945 * x.square()) * x.square(),
        )

    stddev = property(lambda self: self.variance.sqrt())

    def rsample(self, sample_shape=()):
        return self.icdf(standard(self._extended_shape(sample_shape), "uniform_", self._param))

    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -bernoulli_cross_entropy(logits, value) + self._cont_bern_log_norm()

    def cdf(self, value):
        value = self._checked(value)
        inner = self._by_region(
            lambda p: (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1), lambda x: value + 0 * x
        )
        return strata.where(value <= 0, 0.0, strata.where(value >= 1, 1.0, inner))

    def icdf(self, value):
        return self._by_region(
            lambda p: ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p()),
            lambda x: value + 0 * x,
        )

    def entropy(self):
        no, yes = (-self.probs).log1p(), self.probs.log()
        return self.mean * (no - yes) - self._cont_bern_log_norm() - no

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        outside = (x <= low) | (x > high)
        safe = strata.where(outside, x, low)
        square = x.square()
        series = 0.5 * x + square / 24 - square.square() / 2880
        return strata.where(outside, safe.expm1().abs().log() - safe.abs().log(), series)


class Geometric(ProbsOrLogits):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer
    _parameters = ProbsOrLogits._parameters

    def __init__(self, probs=None, logits=None, validate_args=None):
        name, value = self._choose(probs, logits)
        self._broadcast(validate_args, **{name: value})
        if self._validate_args and name == "probs" and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{self.probs[self.probs <= 0]}"
            )

    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: strata.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)

    @strata.no_grad()
    def sample(self, sample_shape=()):
        u = standard(self._extended_shape(sample_shape), "uniform_", self._param)
        u = u.clamp(min=strata.finfo(u.dtype).tiny)
        return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        value, probs = broadcast_all(self._checked(value), self.probs)
        certain = (probs == 1) & (value == 0)
        return value * (-strata.where(certain, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self):
        return bernoulli_cross_entropy(self.logits, self.probs) / self.probs


class WithCount(ProbsOrLogits):
    """A count of trials beside the probability."""

    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        name, value = self._choose(probs, logits)
        total_count, value = broadcast_all(total_count, value)
        self._broadcast(validate_args, total_count=total_count.to(value.dtype), **{name: value})


class Binomial(WithCount):
    """The number of successes of total_count trials."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **ProbsOrLogits.arg_constraints}
    has_enumerate_support = True
    _parameters = WithCount._parameters

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().minimum(self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @strata.no_grad()
    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return strata.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        value, n = self._checked(value), self.total_count
        ways = strata.lgamma(n + 1) - strata.lgamma(value + 1) - strata.lgamma(n - value + 1)
        return ways + value * self.logits + n * logsigmoid(-self.logits)

    def _one_count(self, function):
        n = int(self.total_count.max())
        if not (self.total_count == n).all():
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{function}`.")
        return n

    def entropy(self):
        self._one_count("entropy")
        log_probs = self.log_prob(self.enumerate_support(False))
        return -(log_probs.exp() * log_probs).sum(0)

    def enumerate_support(self, expand=True):
        return self._integers(1 + self._one_count("enumerate_support"), expand)


class NegativeBinomial(WithCount):
    """The number of successes before the total_count-th failure; total_count may be any number."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = WithCount._parameters

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())

    @strata.no_grad()
    def sample(self, sample_shape=()):
        rate = strata._standard_gamma(self.total_count.expand(self._extended_shape(sample_shape)))
        return strata.poisson(rate * self.logits.exp())

    def log_prob(self, value):
        value, n = self._checked(value), self.total_count
        powers = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = strata.lgamma(n + value) - strata.lgamma(1 + value) - strata.lgamma(n)
        return powers + ways.masked_fill(n + value == 0, 0.0)


class Poisson(ExponentialFamily):
    """The Poisson distribution."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        self._broadcast(validate_args, rate=rate)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    variance = property(lambda self: self.rate)

    @strata.no_grad()
    def sample(self, sample_shape=()):
        return strata.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        rate, value = broadcast_all(self.rate, self._checked(value))
        return strata.xlogy(value, rate) - rate - strata.lgamma(value + 1)

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
