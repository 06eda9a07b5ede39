"""Distributions with a location and a scale, and others over an interval or all real numbers."""

import math

import strata

from . import constraints
from .distribution import HALF_LOG_TWO_PI, Distribution, ExponentialFamily
from .utils import standard

__all__ = ["Cauchy", "GeneralizedPareto", "Laplace", "Normal", "StudentT", "Uniform", "VonMises"]


class LocationScale(Distribution):
    """loc + scale * z, with a standard distribution of z. Subclasses define the functions of z.

    _log_density(z), _cdf(z), _icdf(u) and _draw(shape) are of the standard distribution, _entropy and _variance its
    numbers.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self._broadcast(validate_args, loc=loc, scale=scale)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self.scale.square() * self._variance)

    def rsample(self, sample_shape=()):
        return self.loc + self.scale * self._draw(self._extended_shape(sample_shape))

    def log_prob(self, value):
        return self._log_density((self._checked(value) - self.loc) / self.scale) - self.scale.log()

    def cdf(self, value):
        return self._cdf((self._checked(value) - self.loc) / self.scale)

    def icdf(self, value):
        return self.loc + self.scale * self._icdf(value)

    def entropy(self):
        return self._entropy + self.scale.log()


class Normal(LocationScale, ExponentialFamily):
    """The normal (Gaussian) distribution."""

    _entropy = 0.5 + HALF_LOG_TWO_PI
    _mean_carrier_measure = 0
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.square())

    def _draw(self, shape):
        return standard(shape, "normal_", self.loc)

    def _log_density(self, z):
        return -0.5 * z.square() - HALF_LOG_TWO_PI

    def _cdf(self, z):
        return strata.special.ndtr(z)

    def _icdf(self, u):
        return math.sqrt(2) * strata.erfinv(2 * u - 1)

    @property
    def _natural_params(self):
        inverse = 1 / self.scale.square()
        return self.loc * inverse, -0.5 * inverse

    def _log_normalizer(self, x, y):
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Laplace(LocationScale):
    """The Laplace distribution: two exponential distributions, back to back."""

    _entropy = 1 + math.log(2)
    _variance = 2
    stddev = property(lambda self: math.sqrt(2) * self.scale)

    def _draw(self, shape):
        u = self.loc.new_empty(shape).uniform_(strata.finfo(self.loc.dtype).eps - 1, 1)
        return -u.sign() * (-u.abs()).log1p()

    def _log_density(self, z):
        return -z.abs() - math.log(2)

    def _cdf(self, z):
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def _icdf(self, u):
        rest = u - 0.5
        return -rest.sign() * (-2 * rest.abs()).log1p()


class Cauchy(LocationScale):
    """The Cauchy (Lorentz) distribution, which has no mean."""

    _entropy = math.log(4 * math.pi)
    mean = property(lambda self: strata.full_like(self.loc, math.nan))
    variance = property(lambda self: strata.full_like(self.loc, math.inf))

    def _draw(self, shape):
        return standard(shape, "cauchy_", self.loc)

    def _log_density(self, z):
        return -math.log(math.pi) - z.square().log1p()

    def _cdf(self, z):
        return strata.atan(z) / math.pi + 0.5

    def _icdf(self, u):
        return strata.tan(math.pi * (u - 0.5))


class StudentT(LocationScale):
    """Student's t-distribution."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    _parameters = {"df": 0, "loc": 0, "scale": 0}
    cdf, icdf = Distribution.cdf, Distribution.icdf

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._broadcast(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self):
        return strata.where(self.df > 1, self.loc, math.nan)

    @property
    def _variance(self):
        above = strata.where(self.df > 2, self.df / (self.df - 2), math.inf)
        return strata.where(self.df > 1, above, math.nan)

    def _draw(self, shape):
        chi2 = 2 * strata._standard_gamma((0.5 * self.df).expand(shape))
        return standard(shape, "normal_", self.loc) * (chi2 / self.df).rsqrt()

    def _log_density(self, z):
        half = 0.5 * self.df
        norm = 0.5 * (math.pi * self.df).log() + strata.lgamma(half) - strata.lgamma(half + 0.5)
        return -(half + 0.5) * (z.square() / self.df).log1p() - norm

    @property
    def _entropy(self):
        half, above = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = strata.lgamma(half) + math.lgamma(0.5) - strata.lgamma(above)
        return above * (strata.digamma(above) - strata.digamma(half)) + 0.5 * self.df.log() + log_beta


class Uniform(Distribution):
    """Numbers in [low, high), all equally likely."""

    has_rsample = True
    _parameters = {"low": 0, "high": 0}

    def __init__(self, low, high, validate_args=None):
        self._broadcast(validate_args, low=low, high=high)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / math.sqrt(12))
    variance = property(lambda self: (self.high - self.low).square() / 12)

    def rsample(self, sample_shape=()):
        u = standard(self._extended_shape(sample_shape), "uniform_", self.low)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value):
        value = self._checked(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value):
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return (self.high - self.low).log()


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution: a tail above loc, which ends at a bound if the concentration is negative."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._broadcast(validate_args, loc=loc, scale=scale, concentration=concentration)

    @property
    def _shape(self):
        """Whether the concentration is 0, an exponential distribution; and the concentration, 1 in its place."""
        zero = self.concentration.isclose(strata.zeros_like(self.concentration))
        return zero, strata.where(zero, strata.ones_like(self.concentration), self.concentration)

    def _z(self, value):
        return (value - self.loc) / self.scale

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = strata.where(self.concentration < 0, self.loc - self.scale / self._shape[1], math.inf)
        return constraints.interval(self.loc, end)

    @property
    def mean(self):
        below = self.concentration < 1
        return strata.where(below, self.loc + self.scale / strata.where(below, 1 - self.concentration, 1.0), math.inf)

    @property
    def variance(self):
        below = self.concentration < 0.5
        c = strata.where(below, self.concentration, 0.0)
        return strata.where(below, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), math.inf)

    mode = property(lambda self: self.loc)

    def rsample(self, sample_shape=()):
        return self.icdf(standard(self._extended_shape(sample_shape), "uniform_", self.loc))

    def log_survival_function(self, value):
        """log(1 - cdf(value))."""
        zero, c = self._shape
        z = self._z(self._checked(value))
        return strata.where(zero, -z, -(c * z).log1p() / c)

    def log_prob(self, value):
        zero, c = self._shape
        z = self._z(self._checked(value))
        return strata.where(zero, -z, -(1 + 1 / c) * (c * z).log1p()) - self.scale.log()

    def log_cdf(self, value):
        """log(cdf(value))."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value):
        return -self.log_survival_function(value).expm1()

    def icdf(self, value):
        zero, c = self._shape
        rest = (-value).log1p()
        return self.loc + self.scale * strata.where(zero, -rest, (-c * rest).expm1() / c)

    def entropy(self):
        return self.scale.log() + self.concentration + 1


# Abramowitz and Stegun, 9.8.1 to 9.8.4: I0 and I1 below 3.75, and e^-x sqrt(x) times them above.
_BESSEL_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
_BESSEL_LARGE = (
    (
        0.39894228,
        0.01328592,
        0.00225319,
        -0.00157565,
        0.00916281,
        -0.02057706,
        0.02635537,
        -0.01647633,
        0.00392377,
    ),
    (
        0.39894228,
        -0.03988024,
        -0.00362018,
        0.00163801,
        -0.01031555,
        0.02282967,
        -0.02895312,
        0.01787654,
        -0.00420059,
    ),
)


def _polynomial(x, coefficients):
    result = strata.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = c + x * result
    return result


def log_bessel(x, order):
    """log I0(x) or log I1(x) of the modified Bessel functions, x >= 0."""
    is_small = x < 3.75
    low = strata.where(is_small, x, 1.0)
    small = _polynomial((low / 3.75).square(), _BESSEL_SMALL[order]).log()
    if order:
        small = low.log() + small
    high = strata.where(is_small, 3.75, x)
    large = high - 0.5 * high.log() + _polynomial(3.75 / high, _BESSEL_LARGE[order]).log()
    return strata.where(is_small, small, large)


class VonMises(Distribution):
    """The von Mises distribution of angles in [-pi, pi), centered at loc."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "concentration": 0}

    def __init__(self, loc, concentration, validate_args=None):
        self._broadcast(validate_args, loc=loc, concentration=concentration)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        """The circular variance."""
        return 1 - (log_bessel(self.concentration, 1) - log_bessel(self.concentration, 0)).exp()

    def log_prob(self, value):
        angle = self._checked(value) - self.loc
        return self.concentration * angle.cos() - math.log(2 * math.pi) - log_bessel(self.concentration, 0)

    @strata.no_grad()
    def sample(self, sample_shape=()):
        """By rejection from a wrapped Cauchy distribution (Best and Fisher, 1979), in float64."""
        shape = self._extended_shape(sample_shape)
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = strata.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho)).expand(shape)  # a series for small k
        k, angle = k.expand(shape), r.new_zeros(shape)
        accepted = strata.zeros_like(angle, dtype=strata.bool)
        while not accepted.all():
            u = standard((3, *shape), "uniform_", r)
            z = (math.pi * u[0]).cos()
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            accept = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
            angle = strata.where(accept & ~accepted, (u[2] - 0.5).sign() * f.clamp(min=-1, max=1).acos(), angle)
            accepted = accepted | accept
        turned = angle + self.loc.double() + math.pi
        return (turned.remainder(2 * math.pi) - math.pi).to(self.loc.dtype)
