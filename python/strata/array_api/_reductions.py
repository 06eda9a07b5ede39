"""Sums, extremes, moments and running sums along axes."""

import math

from .. import _C
from ._dtypes import kind_of
from ._manipulation import concat

__all__ = [
    "all",
    "any",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

ops = _C.ops


def _axes(x, axis):
    """The axes as a tuple; all of them for None."""
    return tuple(range(x.dim())) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _one_axis(x, axes):
    """x with the given axes joined to one at its end, for ops that reduce one axis."""
    axes = sorted(a % x.dim() if x.dim() else a for a in axes)
    kept = [a for a in range(x.dim()) if a not in axes]
    size = math.prod(x.shape[a] for a in axes)
    return x.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), size), axes


def _with_axes(x, axes):
    for a in axes:
        x = x.unsqueeze(a)
    return x


def _sum_dtype(x, dtype):
    """The dtype of a sum or product: the widest of the same kind for integers."""
    if dtype is not None:
        return dtype
    kind = kind_of(x.dtype)
    return _C.uint64 if kind == "unsigned integer" else x.dtype if kind.endswith("floating") else _C.int64


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum along the given axes, or of all elements."""
    axes, dtype = _axes(x, axis), _sum_dtype(x, dtype)
    return ops["sum"](x, axes, keepdims, dtype=dtype) if axes else x.to(dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product along the given axes, or of all elements."""
    axes, dtype = _axes(x, axis), _sum_dtype(x, dtype)
    if not axes:
        return x.to(dtype)
    joined, axes = _one_axis(x, axes)
    out = ops["prod"](joined, -1, dtype=dtype)
    return _with_axes(out, axes) if keepdims else out


def max(x, /, *, axis=None, keepdims=False):
    """The largest element along the given axes, or of all; NaN if there is one."""
    axes = _axes(x, axis)
    return ops["amax"](x, axes, keepdims) if axes else x.clone()


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element along the given axes, or of all; NaN if there is one."""
    axes = _axes(x, axis)
    return ops["amin"](x, axes, keepdims) if axes else x.clone()


def mean(x, /, *, axis=None, keepdims=False):
    """The mean along the given axes, or of all elements."""
    axes = _axes(x, axis)
    return ops["mean"](x, axes, keepdims) if axes else x.clone()


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance: the sum of squared distances from the mean, over the number of elements less `correction`."""
    axes = _axes(x, axis)
    if not axes:  # each element is a set of its own
        return ops["var"](x.unsqueeze(-1), (-1,), correction=correction)
    return ops["var"](x, axes, correction=correction, keepdim=keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation: the square root of var()."""
    return ops["sqrt"](var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements along the given axes are true."""
    axes = _axes(x, axis)
    return ops["all"](x.to(_C.bool), axes, keepdims) if axes else x.to(_C.bool)


def any(x, /, *, axis=None, keepdims=False):
    """Whether some element along the given axes is true."""
    axes = _axes(x, axis)
    return ops["any"](x.to(_C.bool), axes, keepdims) if axes else x.to(_C.bool)


def _cumulative(name, op, first, x, axis, dtype, include_initial):
    if axis is None:
        if x.dim() != 1:
            raise ValueError(f"{name}: axis is required for an array of {x.dim()} dimensions")
        axis = 0
    out = ops[op](x, axis, dtype=_sum_dtype(x, dtype))
    if not include_initial:
        return out
    shape = list(out.shape)
    shape[axis] = 1
    return concat([ops["full"](shape, first, dtype=out.dtype, device=out.device), out], axis=axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The sums of the first 1, 2, … elements along an axis; include_initial puts a 0 in front."""
    return _cumulative("cumulative_sum", "cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The products of the first 1, 2, … elements along an axis; include_initial puts a 1 in front."""
    return _cumulative("cumulative_prod", "cumprod", 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """The differences of neighbours along an axis, n times."""
    return ops["diff"](x, n, axis, prepend, append)
