"""Changes of shape, and joins."""

from .. import _C, _functions
from ._dtypes import result_type

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]

Tensor, ops = _C.Tensor, _C.ops


def broadcast_arrays(*arrays):
    """The arrays expanded to their common shape."""
    shape = _functions.broadcast_shapes(*(x.shape for x in arrays))
    return [x.expand(shape) for x in arrays]


def broadcast_to(x, /, shape):
    """A view of x with the given shape."""
    return x.expand(tuple(shape))


def _same_dtype(arrays):
    dtype = result_type(*arrays)
    return [x.to(dtype) for x in arrays]


def concat(arrays, /, *, axis=0):
    """The arrays joined along an axis; flattened first if it is None."""
    arrays = _same_dtype(arrays)
    if axis is None:
        arrays, axis = [x.reshape(-1) for x in arrays], 0
    return ops["cat"](arrays, axis)


def stack(arrays, /, *, axis=0):
    """The arrays joined along a new axis."""
    return ops["stack"](_same_dtype(arrays), axis)


def unstack(x, /, *, axis=0):
    """The slices along an axis, without it."""
    return tuple(ops["unbind"](x, axis))


def expand_dims(x, /, axis):
    """x with a new axis of size 1."""
    return ops["unsqueeze"](x, axis)


def squeeze(x, /, axis):
    """x without the given axes, whose size must be 1."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} must have size 1, found {x.shape[a]} (shape {tuple(x.shape)})")
    return ops["squeeze"](x, axes) if axes else x


def flip(x, /, *, axis=None):
    """The elements in reverse order along the given axes, or along all."""
    axes = range(x.dim()) if axis is None else (axis,) if isinstance(axis, int) else axis
    return ops["flip"](x, tuple(axes))


def moveaxis(x, source, destination, /):
    """x with some axes moved to other places."""
    return ops["movedim"](x, source, destination)


def permute_dims(x, /, axes):
    """x with its axes in another order."""
    return ops["permute"](x, tuple(axes))


def repeat(x, repeats, /, *, axis=None):
    """Each element along an axis repeated, as often as `repeats` says; flattened first if the axis is None."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, Tensor):
        repeats = repeats.to(_C.int64).expand(x.shape[axis])
    return ops["repeat_interleave"](x, repeats, dim=axis)


def tile(x, repetitions, /):
    """x repeated along each axis."""
    return ops["tile"](x, tuple(repetitions))


def reshape(x, /, shape, *, copy=None):
    """x with another shape: a copy if copy is True, never one if it is False."""
    if copy is False:
        try:
            return ops["view"](x, tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape: copy=False, but {error}") from None
    return ops["reshape"](x.clone() if copy else x, tuple(shape))


def roll(x, /, shift, *, axis=None):
    """The elements moved along the axes, those at the end back to the beginning; flattened if the axis is None."""
    if axis is None:
        return ops["roll"](x.reshape(-1), (shift,), (0,)).reshape(x.shape)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    return ops["roll"](x, shifts, axes)
