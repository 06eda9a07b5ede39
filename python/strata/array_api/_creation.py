"""New arrays."""

import builtins

from .. import _C, _functions

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Tensor, ops = _C.Tensor, _C.ops


def _sizes(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """The numbers start, start + step, … before stop; without stop, those from 0 up to `start`."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if (stop - start) / step <= 0:  # nothing is between them
        whole = all(isinstance(x, int) for x in (start, stop, step))
        return empty(0, dtype=dtype or (_C.int64 if whole else _C.get_default_dtype()), device=device)
    return ops["arange"](start, stop, step, dtype=dtype, device=device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of an array, a Python number, nested sequences of numbers, or an object with memory to read."""
    if isinstance(obj, Tensor):
        to = {"dtype": dtype or obj.dtype, "device": device or obj.device}
        if copy is False and (obj.dtype != to["dtype"] or obj.device != obj.to(device=to["device"]).device):
            raise ValueError("asarray: a conversion to another dtype or device needs a copy, but copy=False")
        return obj.to(**to, copy=builtins.bool(copy))
    if copy is False and isinstance(obj, (builtins.bool, int, float, complex, list, tuple, range)):
        raise ValueError(f"asarray: copy=False, but a {type(obj).__name__} has no memory to share")
    if copy:
        return _C.tensor(obj, dtype=dtype, device=device)
    return _C.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of another library's array; on another device, or with copy=True, a copy of it."""
    out = _functions.from_dlpack(x)
    if device is not None and _C.device(device) != out.device:
        if copy is False:
            raise ValueError(f"from_dlpack: the array is on {out.device}; copy=False does not allow {device}")
        return out.to(device=device)
    return out.clone() if copy else out


def empty(shape, *, dtype=None, device=None):
    """An array with undefined elements."""
    return ops["empty"](_sizes(shape), dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array with undefined elements, of the shape of x."""
    return ops["empty_like"](x, dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """An array of zeros."""
    return ops["zeros"](_sizes(shape), dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """An array of zeros, of the shape of x."""
    return ops["zeros_like"](x, dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """An array of ones."""
    return ops["ones"](_sizes(shape), dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """An array of ones, of the shape of x."""
    return ops["ones_like"](x, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """An array with the same value everywhere."""
    return (
        _C.tensor(fill_value, dtype=dtype, device=device).expand(_sizes(shape)).clone(memory_format="contiguous_format")
    )


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """An array with the same value everywhere, of the shape of x."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=x.device if device is None else device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with ones on diagonal k, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    out = zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        out.diagonal(k).fill_(1)
    return out


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num equally spaced numbers from start to stop; without the last one if endpoint is False."""
    if num < 0:
        raise ValueError(f"linspace: num must not be negative, found {num}")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    if dtype is None:
        dtype = _C.get_default_dtype().to_complex() if is_complex else _C.get_default_dtype()
    count = num if endpoint else num + 1
    if is_complex or dtype.is_complex:
        start, stop = complex(start), complex(stop)
        real = dtype.to_real()
        out = ops["complex"](
            ops["linspace"](start.real, stop.real, count, dtype=real, device=device),
            ops["linspace"](start.imag, stop.imag, count, dtype=real, device=device),
        )
    else:
        out = ops["linspace"](start, stop, count, dtype=dtype, device=device)
    return out if endpoint else out[:num]


def meshgrid(*arrays, indexing="xy"):
    """Coordinate matrices of one-dimensional arrays."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', found {indexing!r}")
    if any(x.dtype is not arrays[0].dtype for x in arrays):
        raise ValueError("meshgrid: all arrays must have the same dtype")
    return list(ops["meshgrid"](list(arrays), indexing=indexing)) if arrays else []


def tril(x, /, *, k=0):
    """The elements on and below diagonal k of each matrix, zeros elsewhere."""
    return ops["tril"](x, k)


def triu(x, /, *, k=0):
    """The elements on and above diagonal k of each matrix, zeros elsewhere."""
    return ops["triu"](x, k)
