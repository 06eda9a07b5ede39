"""Distributions of vectors and matrices that are given by a covariance."""

import math
import warnings

import strata
from strata.linalg import cholesky, solve_triangular

from . import constraints
from .distribution import HALF_LOG_TWO_PI, Distribution, ExponentialFamily
from .positive import Beta
from .utils import lazy_property, size, standard

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]


def identity_like(matrix):
    return strata.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def factor_of_precision(precision):
    """The Cholesky factor of the inverse, from that of the matrix in reverse order."""
    reverse = cholesky(precision.flip((-2, -1)))
    return solve_triangular(reverse.flip((-2, -1)).mT, identity_like(precision), upper=False)


def half_log_determinant(factor):
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(factor, difference):
    """The squared length of factor^-1 difference, over the last dimension. One factor for all is solved at once."""
    if factor.dim() == 2:
        rows = difference.reshape(-1, difference.shape[-1])
        return solve_triangular(factor, rows.mT, upper=False).square().sum(0).reshape(difference.shape[:-1])
    return solve_triangular(factor, difference.unsqueeze(-1), upper=False).square().sum((-2, -1))


def times_vector(matrix, vector):
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


class FromCovariance(Distribution):
    """A covariance that is given as itself, its inverse or its Cholesky factor; the others are computed when read."""

    _matrices = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }

    def _choose(self, error, **matrices):
        given = {name: m for name, m in matrices.items() if m is not None}
        if len(given) != 1:
            raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        return name, matrix

    def _set_factor(self, name, matrix):
        """_unbroadcasted_scale_tril: the Cholesky factor without the batch dimensions of the other parameters."""
        compute = {"covariance_matrix": cholesky, "precision_matrix": factor_of_precision}
        self._unbroadcasted_scale_tril = compute[name](matrix) if name in compute else matrix

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _full(self, matrix):
        return matrix.expand(size(self.batch_shape, matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        return self._full(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        return self._full(strata.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(FromCovariance):
    """Normal vectors with a mean and a covariance."""

    arg_constraints = {"loc": constraints.real_vector, **FromCovariance._matrices}
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._choose(
            ValueError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = strata.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(size(batch_shape, matrix.shape[-2:]))
        self.loc = loc.expand(size(batch_shape, loc.shape[-1:]))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_factor(name, matrix)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._extended_shape())

    def rsample(self, sample_shape=()):
        normal = standard(self._extended_shape(sample_shape), "normal_", self.loc)
        return self.loc + times_vector(self._unbroadcasted_scale_tril, normal)

    def log_prob(self, value):
        distance = mahalanobis(self._unbroadcasted_scale_tril, self._checked(value) - self.loc)
        return (
            -self.event_shape[0] * HALF_LOG_TWO_PI
            - 0.5 * distance
            - half_log_determinant(self._unbroadcasted_scale_tril)
        )

    def entropy(self):
        entropy = self.event_shape[0] * (0.5 + HALF_LOG_TWO_PI) + half_log_determinant(self._unbroadcasted_scale_tril)
        return entropy.expand(self.batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance cov_factor @ cov_factor.T + diag(cov_diag).

    The small matrix I + W^T D^-1 W (the capacitance) replaces the covariance in all computations.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "cov_factor": 2, "cov_diag": 1}

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = strata.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(size(batch_shape, event_shape))
        self.cov_factor = cov_factor.expand(size(batch_shape, cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand(size(batch_shape, event_shape))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance = cholesky(
            self._weighted() @ cov_factor
            + strata.eye(cov_factor.shape[-1], dtype=cov_factor.dtype, device=cov_factor.device)
        )

    def _weighted(self):
        """W^T D^-1."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new._unbroadcasted_cov_factor, new._unbroadcasted_cov_diag, new._capacitance = (
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            self._capacitance,
        )

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        """The diagonal of the covariance."""
        return (self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag).expand(
            self._extended_shape()
        )

    def _full(self, matrix):
        n = self.event_shape[0]
        return matrix.expand(size(self.batch_shape, (n, n)))

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = scaled @ scaled.mT
        return self._full(root * cholesky(inner + identity_like(inner)))

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        return self._full(
            self._unbroadcasted_cov_factor @ self._unbroadcasted_cov_factor.mT
            + self._unbroadcasted_cov_diag.diag_embed()
        )

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        a = solve_triangular(self._capacitance, self._weighted(), upper=False)
        return self._full(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - a.mT @ a)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        inner = standard(size(shape[:-1], self.cov_factor.shape[-1:]), "normal_", self.loc)
        outer = standard(shape, "normal_", self.loc)
        return (
            self.loc + times_vector(self._unbroadcasted_cov_factor, inner) + self._unbroadcasted_cov_diag.sqrt() * outer
        )

    def _half_log_determinant(self):
        return half_log_determinant(self._capacitance) + 0.5 * self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value):
        difference = self._checked(value) - self.loc
        inner = times_vector(self._weighted(), difference)
        distance = (difference.square() / self._unbroadcasted_cov_diag).sum(-1) - mahalanobis(self._capacitance, inner)
        return -self.event_shape[0] * HALF_LOG_TWO_PI - 0.5 * distance - self._half_log_determinant()

    def entropy(self):
        entropy = self.event_shape[0] * (0.5 + HALF_LOG_TWO_PI) + self._half_log_determinant()
        return entropy.expand(self.batch_shape)


def multivariate_digamma(x, p):
    """The derivative of mvlgamma."""
    steps = strata.arange(p, dtype=x.dtype, device=x.device) / 2
    return strata.digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(FromCovariance, ExponentialFamily):
    """Sums of df outer products of normal vectors: positive definite matrices."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        name, matrix = self._choose(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if strata.is_tensor(df) else strata.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape, n = strata.broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-1]
        if (df <= n - 1).any():
            raise ValueError(f"Value of df={df.tolist()} expected to be greater than ndim - 1 = {n - 1}.")
        if (df < n).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self.df = df.expand(batch_shape)
        self.__dict__[name] = matrix.expand(size(batch_shape, (n, n)))
        Distribution.__init__(self, batch_shape, (n, n), validate_args=validate_args)
        self._set_factor(name, matrix)

    @property
    def arg_constraints(self):
        return {**self._matrices, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    @property
    def mean(self):
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.event_shape[-1] - 1
        return strata.where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (covariance.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett(self, shape):
        n = self.event_shape[-1]
        halves = (self.df.unsqueeze(-1) - strata.arange(n, dtype=self.df.dtype, device=self.df.device)) / 2
        chi = (2 * strata._standard_gamma(halves.expand(size(shape[:-2], (n,))))).sqrt()
        factor = self._unbroadcasted_scale_tril @ (standard(shape, "normal_", self.df).tril(-1) + chi.diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape=(), max_try_correction=None):
        """By Bartlett's decomposition; matrices that rounding has made singular are drawn again, three times at most."""
        shape = self._extended_shape(sample_shape)
        sample = self._bartlett(shape)
        for _ in range(3 if max_try_correction is None else max_try_correction):
            singular = ~self.support.check(sample)
            if not singular.any():
                break
            sample = strata.where(singular[..., None, None], self._bartlett(shape), sample)
        return sample

    def _log_scale(self):
        """Half the logarithm of the determinant of twice the covariance."""
        return self.event_shape[-1] * math.log(2) / 2 + half_log_determinant(self._unbroadcasted_scale_tril)

    def log_prob(self, value):
        value, nu, p = self._checked(value), self.df, self.event_shape[-1]
        inner = strata.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        powers = (nu - p - 1) / 2 * strata.linalg.slogdet(value)[1] - inner / 2
        return powers - nu * self._log_scale() - strata.mvlgamma(nu / 2, p)

    def entropy(self):
        nu, p = self.df, self.event_shape[-1]
        digamma = multivariate_digamma(nu / 2, p)
        norm = (p + 1) * self._log_scale() + strata.mvlgamma(nu / 2, p)
        return norm - (nu - p - 1) / 2 * digamma + nu * p / 2

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self.event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self.event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - strata.linalg.slogdet(-2 * x)[1]) + strata.mvlgamma(half, p)


class LKJCholesky(Distribution):
    """Cholesky factors of random correlation matrices (Lewandowski, Kurowicka and Joe, 2009), by the onion method."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = {"concentration": 0}

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration = concentration if strata.is_tensor(concentration) else strata.tensor(float(concentration))
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new.dim = self.dim

    def _steps(self, first, last):
        return strata.arange(first, last, dtype=self.concentration.dtype, device=self.concentration.device)

    @strata.no_grad()
    def sample(self, sample_shape=()):
        """The part of row k before the diagonal has a random direction and a beta-distributed squared length."""
        k = self._steps(-1, self.dim - 1).clamp(min=0)
        below = (self.concentration + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * k
        length = Beta(0.5 * k + 0.5, below).sample(sample_shape).unsqueeze(-1)
        direction = standard(self._extended_shape(sample_shape), "normal_", self.concentration).tril(-1)
        norm = direction.norm(dim=-1, keepdim=True)
        direction = strata.where(norm > 0, direction / norm, 0.0)  # the first row is 0
        rows = length.sqrt() * direction
        rest = (1 - rows.square().sum(-1)).clamp(min=strata.finfo(rows.dtype).tiny)
        return rows + rest.sqrt().diag_embed()

    def log_prob(self, value):
        diagonal = self._checked(value).diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - self._steps(2, self.dim + 1)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + strata.mvlgamma(alpha - 0.5, n) - strata.lgamma(alpha) * n
        return (order * diagonal.log()).sum(-1) - norm
