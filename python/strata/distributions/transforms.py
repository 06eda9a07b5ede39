"""Differentiable maps between sets, with the logarithm of the determinant of their Jacobian."""

import math
from numbers import Number

import strata
from strata.nn.functional import pad, softplus

from . import constraints
from .transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
    reinterpreted,
)
from .utils import size, sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class _Monotonic(Transform):
    """An increasing bijection of numbers."""

    bijective = True
    domain = constraints.real
    codomain = constraints.positive
    sign = +1


class ExpTransform(_Monotonic):
    """The exponential function."""

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(_Monotonic):
    """Positive numbers to the power of the exponent."""

    domain = constraints.positive

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if strata.is_tensor(exponent) else strata.tensor(float(exponent))

    @property
    def sign(self):
        return self.exponent.sign()

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    def _same(self, other):
        return bool(self.exponent.eq(other.exponent).all())

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return strata.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _strictly_between(values):
    """Values moved away from 0 and 1, so that their inverse is finite."""
    info = strata.finfo(values.dtype)
    return values.clamp(min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(_Monotonic):
    """The sigmoid function, 1 / (1 + e^-x)."""

    codomain = constraints.unit_interval

    def _call(self, x):
        return _strictly_between(x.sigmoid())

    def _inverse(self, y):
        y = _strictly_between(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Monotonic):
    """The softplus function, log(1 + e^x)."""

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x)


class TanhTransform(_Monotonic):
    """The hyperbolic tangent."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return strata.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """The absolute value; its inverse chooses the positive number."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """The affine map loc + scale * x."""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)
    domain = constraints.dependent_property(
        lambda self: reinterpreted(constraints.real, self._event_dim), is_discrete=False
    )
    codomain = domain

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def _same(self, other):
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(a is b or bool(strata.as_tensor(a).eq(strata.as_tensor(b)).all()) for a, b in pairs)

    @property
    def sign(self):
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, Number):
            logarithm = strata.full_like(x, math.log(abs(self.scale)))
        else:
            logarithm = self.scale.abs().log()
        shape = strata.broadcast_shapes(x.shape, logarithm.shape)
        return sum_rightmost(logarithm.expand(shape), self.event_dim)

    def forward_shape(self, shape):
        return strata.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CorrCholeskyTransform(Transform):
    """Vectors of length n (n - 1) / 2 to Cholesky factors of correlation matrices: tanh of them are partial correlations."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = strata.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r * r).cumprod(-1).sqrt()  # what the columns before leave of a row's length
        r = r + strata.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y):
        left = 1 - (y * y).cumsum(-1)
        rows = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return rows - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return size(shape[:-1], (n, n))

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return size(shape[:-2], (shape[-1] * (shape[-1] - 1) // 2,))


def _vector_shape(shape):
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input")
    return shape


class SoftmaxTransform(Transform):
    """Vectors to the simplex by softmax; its inverse is a logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        return _vector_shape(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Vectors to the simplex with one element more: each number says which part of the rest of a stick breaks off."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(n, like):
        return strata.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x):
        z = _strictly_between((x - self._offset(x.shape[-1], x)).sigmoid())
        return pad(z, [0, 1], value=1) * pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y):
        cropped = y[..., :-1]
        rest = (1 - cropped.cumsum(-1)).clamp(min=strata.finfo(y.dtype).tiny)
        return cropped.log() - rest.log() + self._offset(cropped.shape[-1], y)

    def log_abs_det_jacobian(self, x, y):
        shifted = x - self._offset(x.shape[-1], x)
        return (-shifted + strata.nn.functional.logsigmoid(shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return size(_vector_shape(shape)[:-1], (shape[-1] + 1,))

    def inverse_shape(self, shape):
        return size(_vector_shape(shape)[:-1], (shape[-1] - 1,))


class LowerCholeskyTransform(Transform):
    """Matrices to lower triangular ones with a positive diagonal, of which the input has the logarithm."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones, by way of their Cholesky factor."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(strata.linalg.cholesky(y))


class _Parts(Transform):
    """Transforms of parts of a dimension."""

    def __init__(self, tseq, dim=0, cache_size=0):
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("tseq must be a sequence of Transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _check(self, value, length):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a tensor with {value.dim()} dimensions")
        if value.shape[self.dim] != length:
            raise AssertionError(f"dimension {self.dim} has {value.shape[self.dim]} elements, expected {length}")


class CatTransform(_Parts):
    """Transforms of consecutive parts of dim, with the given lengths."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.transforms)} transforms")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths))
    domain = constraints.dependent_property(
        lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)
    )
    codomain = constraints.dependent_property(
        lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)
    )

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, value):
        self._check(value, self.length)
        return value.split(self.lengths, self.dim)

    def _call(self, x):
        return strata.cat([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)], self.dim)

    def _inverse(self, y):
        return strata.cat([t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x, y):
        event_dim, results = self.event_dim, []
        for t, before, after in zip(self.transforms, self._split(x), self._split(y), strict=True):
            results.append(sum_rightmost(t.log_abs_det_jacobian(before, after), event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += event_dim
        return strata.cat(results, dim) if dim < 0 else sum(results)


class StackTransform(_Parts):
    """A transform per index of dim."""

    domain = constraints.dependent_property(
        lambda self: constraints.stack([t.domain for t in self.transforms], self.dim)
    )
    codomain = constraints.dependent_property(
        lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim)
    )

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, value):
        self._check(value, len(self.transforms))
        return value.unbind(self.dim)

    def _call(self, x):
        return strata.stack([t(part) for t, part in zip(self.transforms, self._slice(x), strict=True)], self.dim)

    def _inverse(self, y):
        return strata.stack([t.inv(part) for t, part in zip(self.transforms, self._slice(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x, y):
        parts = zip(self.transforms, self._slice(x), self._slice(y), strict=True)
        return strata.stack([t.log_abs_det_jacobian(before, after) for t, before, after in parts], self.dim)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)
