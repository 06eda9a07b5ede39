"""Gamma distributions and their relatives: over positive numbers, intervals and the simplex."""

import math

import strata

from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import broadcast_all, standard

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma"]


class Exponential(ExponentialFamily):
    """The exponential distribution."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"rate": 0}
    _mean_carrier_measure = 0

    def __init__(self, rate, validate_args=None):
        self._broadcast(validate_args, rate=rate)

    mean = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: strata.zeros_like(self.rate))
    stddev = property(lambda self: self.rate.reciprocal())
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape=()):
        return standard(self._extended_shape(sample_shape), "exponential_", self.rate) / self.rate

    def log_prob(self, value):
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value):
        return -(-self.rate * self._checked(value)).expm1()

    def icdf(self, value):
        return -(-value).log1p() / self.rate

    def entropy(self):
        return 1 - self.rate.log()

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -(-x).log()


class Gamma(ExponentialFamily):
    """The gamma distribution, with a shape (concentration) and a rate."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"concentration": 0, "rate": 0}
    _mean_carrier_measure = 0

    def __init__(self, concentration, rate, validate_args=None):
        self._broadcast(validate_args, concentration=concentration, rate=rate)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.square())

    def rsample(self, sample_shape=()):
        value = strata._standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        value.detach().clamp_(min=strata.finfo(value.dtype).tiny)  # a large rate must not give 0
        return value

    def log_prob(self, value):
        value = strata.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        c = self.concentration
        powers = strata.xlogy(c, self.rate) + strata.xlogy(c - 1, self._checked(value))
        return powers - self.rate * value - strata.lgamma(c)

    def cdf(self, value):
        return strata.special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self):
        c = self.concentration
        return c - self.rate.log() + strata.lgamma(c) + (1 - c) * strata.digamma(c)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return strata.lgamma(x + 1) + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The chi-squared distribution: a gamma distribution with shape df / 2 and rate 1/2."""

    arg_constraints = {"df": constraints.positive}
    _parameters = Gamma._parameters

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    df = property(lambda self: 2 * self.concentration)


class FisherSnedecor(Distribution):
    """The F-distribution: a quotient of two means of squares."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0}

    def __init__(self, df1, df2, validate_args=None):
        self._broadcast(validate_args, df1=df1, df2=df2)

    @property
    def mean(self):
        return strata.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self):
        value = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return strata.where(self.df1 > 2, value, math.nan)

    @property
    def variance(self):
        a, b = self.df1, self.df2
        value = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return strata.where(b > 4, value, math.nan)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        tiny = strata.finfo(self.df2.dtype).tiny
        above, below = (strata._standard_gamma((0.5 * df).expand(shape)) / (0.5 * df) for df in (self.df1, self.df2))
        value = above / below.clamp(min=tiny)
        value.detach().clamp_(min=tiny)
        return value

    def log_prob(self, value):
        value, a, b = self._checked(value), 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        norm = strata.lgamma(a + b) - strata.lgamma(a) - strata.lgamma(b)
        return norm + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of points on the simplex."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return strata._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        c = self.concentration
        powers = strata.xlogy(c - 1, self._checked(value)).sum(-1)
        return powers + strata.lgamma(c.sum(-1)) - strata.lgamma(c).sum(-1)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, keepdim=True))

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, keepdim=True)
        corner = (self.concentration < 1).all(-1, keepdim=True)  # the density is unbounded in the corners
        largest = strata.nn.functional.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1])
        return strata.where(corner, largest.to(mode.dtype), mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self):
        c = self.concentration
        k, total = c.shape[-1], c.sum(-1)
        log_beta = strata.lgamma(c).sum(-1) - strata.lgamma(total)
        return log_beta - (k - total) * strata.digamma(total) - ((c - 1) * strata.digamma(c)).sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return strata.lgamma(x).sum(-1) - strata.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """The beta distribution: the first of two Dirichlet numbers."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {}

    def __init__(self, concentration1, concentration0, validate_args=None):
        both = strata.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])

    def _expand_into(self, new, batch_shape):
        new._dirichlet = self._dirichlet.expand(batch_shape)

    mean = property(lambda self: self._dirichlet.mean[..., 0])
    mode = property(lambda self: self._dirichlet.mode[..., 0])
    variance = property(lambda self: self._dirichlet.variance[..., 0])

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        value = self._checked(value)
        return self._dirichlet.log_prob(strata.stack([value, 1 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return strata.lgamma(x) + strata.lgamma(y) - strata.lgamma(x + y)
