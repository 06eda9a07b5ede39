"""Dtypes of the standard: their kinds, promotion, limits and conversion."""

import builtins
from dataclasses import dataclass

from .. import _C, _functions

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

Tensor = _C.Tensor
_Number = (builtins.bool, int, float, complex)

KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


def kind_of(dtype):
    """The kind of a dtype, also of one that the standard does not know (bfloat16 is "real floating")."""
    if dtype is _C.bool:
        return "bool"
    if dtype.is_complex:
        return "complex floating"
    if dtype.is_floating_point:
        return "real floating"
    return "signed integer" if dtype.is_signed else "unsigned integer"


_WIDER_KINDS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


def isdtype(dtype, kind):
    """Whether a dtype is the given one, of the given kind, or any of a tuple of both."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: unknown kind {kind!r}; expected one of {', '.join(map(repr, KINDS))}")
        return kind_of(dtype) in _WIDER_KINDS.get(kind, (kind,))
    if isinstance(kind, _C.dtype):
        return dtype == kind
    raise TypeError(f"isdtype: expected a dtype, a kind or a tuple of them, found {type(kind).__name__}")


def _with_number(dtype, number):
    """The dtype of an array of `dtype` combined with a Python number."""
    if isinstance(number, builtins.bool) or (isinstance(number, int) and dtype is not _C.bool):
        return dtype
    if isinstance(number, int):
        return _C.int64
    if isinstance(number, float):
        return dtype if dtype.is_floating_point or dtype.is_complex else _C.get_default_dtype()
    return dtype if dtype.is_complex else (dtype if dtype.is_floating_point else _C.get_default_dtype()).to_complex()


def result_type(*arrays_and_dtypes):
    """The dtype that arrays, dtypes and Python numbers are promoted to; there must be an array or a dtype."""
    dtypes, numbers = [], []
    for x in arrays_and_dtypes:
        if isinstance(x, Tensor):
            dtypes.append(x.dtype)
        elif isinstance(x, _C.dtype):
            dtypes.append(x)
        elif isinstance(x, _Number):
            numbers.append(x)
        else:
            raise TypeError(f"result_type: expected arrays, dtypes or Python numbers, found {type(x).__name__}")
    if not dtypes:
        raise ValueError("result_type: expected at least one array or dtype")
    out = dtypes[0]
    for dtype in dtypes[1:]:
        if dtype is not out:
            out = _promoted(out, dtype)
    for number in numbers:
        out = _with_number(out, number)
    return out


def _promoted(a, b):
    try:
        return _C.promote_types(a, b)
    except RuntimeError as error:
        raise TypeError(str(error)) from None


def promoted(op, *operands):
    """The operands, arrays or Python numbers, as arrays of their common dtype."""
    first = next((x for x in operands if isinstance(x, Tensor)), None)
    if first is None:
        raise TypeError(f"{op}: expected at least one array, found {', '.join(type(x).__name__ for x in operands)}")
    if all(isinstance(x, Tensor) and x.dtype is first.dtype for x in operands):
        return operands
    dtype = result_type(*operands)
    return [x.to(dtype) if isinstance(x, Tensor) else _C.tensor(x, dtype=dtype, device=first.device) for x in operands]


def can_cast(from_, to, /):
    """Whether promotion of an array or dtype with the dtype `to` results in `to`."""
    from_ = from_.dtype if isinstance(from_, Tensor) else from_
    try:
        return result_type(from_, to) == to
    except TypeError:  # no common dtype
        return False


def astype(x, dtype, /, *, copy=True, device=None):
    """The array with its elements converted; copy=False returns x itself if nothing has to be converted."""
    if x.dtype.is_complex and not dtype.is_complex and dtype is not _C.bool:
        raise TypeError(f"astype: {x.dtype} cannot be converted to {dtype}; convert real(x) or imag(x)")
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


@dataclass(frozen=True)
class finfo_object:
    """The limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: object


@dataclass(frozen=True)
class iinfo_object:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: object


def finfo(type, /):
    """The limits of a floating-point dtype, or of that of an array; of a complex one, those of its parts."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    dtype = dtype.to_real() if dtype.is_complex else dtype
    limits = _functions.finfo(dtype)
    return finfo_object(limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, dtype)


def iinfo(type, /):
    """The limits of an integer dtype, or of that of an array."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    limits = _functions.iinfo(dtype)
    return iinfo_object(limits.bits, limits.max, limits.min, dtype)
