"""Order: sorting, searching, sets; and access by index arrays."""

from typing import NamedTuple

from .. import _C
from ._dtypes import promoted

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]

Tensor, ops = _C.Tensor, _C.ops


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis."""
    return ops["sort"](x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The positions of the elements in order along an axis."""
    return ops["sort"](x, dim=axis, descending=descending, stable=stable)[1]


def _extreme(op, x, axis, keepdims):
    if axis is None:
        out = ops[op](x.reshape(-1), 0)
        return out.reshape((1,) * x.dim()) if keepdims else out
    return ops[op](x, axis, keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    """The position of the largest element along an axis, or in the flattened array."""
    return _extreme("argmax", x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The position of the smallest element along an axis, or in the flattened array."""
    return _extreme("argmin", x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements along the given axes are not zero."""
    axes = tuple(range(x.dim())) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if not axes:
        return (x != 0).to(_C.int64)
    return ops["sum"](x != 0, axes, keepdims)


def nonzero(x, /):
    """The positions of the elements that are not zero: an array of indices per axis."""
    if x.dim() == 0:
        raise ValueError("nonzero: a zero-dimensional array has no positions")
    return tuple(ops["unbind"](ops["nonzero"](x), 1))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """The positions in the sorted array x1 at which the elements of x2 would be inserted."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', found {side!r}")
    x1, x2 = promoted("searchsorted", x1, x2)
    if sorter is not None:
        sorter = sorter.to(_C.int64)
    return ops["searchsorted"](x1, x2, right=side == "right", sorter=sorter)


def where(condition, x1, x2, /):
    """The elements of x1 where the condition is true, those of x2 elsewhere."""
    return ops["where"](condition, *promoted("where", x1, x2))


def take(x, indices, /, *, axis=None):
    """The slices of x along an axis at the given indices."""
    if axis is None:
        if x.dim() != 1:
            raise ValueError(f"take: axis is required for an array of {x.dim()} dimensions")
        axis = 0
    return x[(slice(None),) * (axis % x.dim()) + (indices.to(_C.int64),)]


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements of x along an axis at the given indices, which have the other dimensions of x."""
    return ops["take_along_dim"](x, indices.to(_C.int64), axis)


class unique_all_result(NamedTuple):
    """What unique_all() returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    """What unique_counts() returns."""

    values: Tensor
    counts: Tensor


class unique_inverse_result(NamedTuple):
    """What unique_inverse() returns."""

    values: Tensor
    inverse_indices: Tensor


def _sorted_groups(x):
    """The sorted elements, their positions in x, and whether each differs from the one before. NaNs all differ."""
    flat = x.reshape(-1)
    if x.dtype.is_complex:  # by the real parts, then by the imaginary ones
        order = argsort(ops["imag"](flat))
        order = order[argsort(ops["real"](flat)[order])]
    else:
        order = argsort(flat)
    values = flat[order]
    starts = ops["ones_like"](values, dtype=_C.bool)
    starts[1:] = values[1:] != values[:-1]
    return values, order, starts


def unique_all(x, /):
    """The distinct elements, the position of the first of each, which one each element of x is, and their counts."""
    values, order, starts = _sorted_groups(x)
    first = nonzero(starts)[0]
    inverse = ops["empty_like"](order)
    inverse[order] = ops["cumsum"](starts, 0) - 1
    end = ops["full"]((1,), values.numel(), dtype=_C.int64, device=x.device)
    counts = ops["diff"](first, append=end)
    return unique_all_result(values[first], order[first], inverse.reshape(x.shape), counts)


def unique_counts(x, /):
    """The distinct elements and how often each occurs."""
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x, /):
    """The distinct elements, and which of them each element of x is."""
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x, /):
    """The distinct elements."""
    values, _, starts = _sorted_groups(x)
    return values[starts]
