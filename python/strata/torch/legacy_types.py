"""The types of old programs: FloatTensor(2, 3), LongTensor([1, 2]), isinstance(x, cuda.FloatTensor), x.type("torch.IntTensor")."""

from .. import _C
from .storage import _KINDS

_empty = _C.ops["empty"]


def _shape_of(args):
    """The sizes in FloatTensor(2, 3) or FloatTensor(size); None if the argument is data."""
    if len(args) == 1 and isinstance(args[0], _C.Size):
        return args[0]
    return args if all(isinstance(a, int) and not isinstance(a, bool) for a in args) else None


class _TensorType(type):
    """A tensor type: calling it makes a plain tensor of its dtype on its device."""

    def __call__(cls, *args, device=None):
        place = device or cls._place
        shape = _shape_of(args)
        if shape is not None:
            return _empty(tuple(shape) or (0,), dtype=cls.dtype, device=place)
        if len(args) != 1:
            raise TypeError(f"{cls.__name__}() takes sizes or one sequence of data, found {len(args)} arguments")
        if isinstance(args[0], _C.Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(
                    f"{cls.__name__}() expected a tensor of {cls.dtype}, found {args[0].dtype}; convert it with .to()"
                )
            return args[0].detach()
        return _C.tensor(args[0], dtype=cls.dtype, device=place)

    def __instancecheck__(cls, thing):
        kind = "cuda" if cls._place else "cpu"
        return isinstance(thing, _C.Tensor) and thing.dtype is cls.dtype and thing.device.type == kind

    def __repr__(cls):
        return f"<class '{type_name(cls.dtype, cls._place)}'>"


def _make(name, dtype, place):
    home = "torch.cuda" if place else "torch"
    return _TensorType(f"{name}Tensor", (), {"dtype": dtype, "_place": place, "__module__": home})


CPU = {f"{name}Tensor": _make(name, getattr(_C, dtype), None) for name, dtype in _KINDS.items()}
CUDA = {f"{name}Tensor": _make(name, getattr(_C, dtype), "cuda") for name, dtype in _KINDS.items()}
globals().update(CPU)
_NAMES = {getattr(_C, dtype): name for name, dtype in _KINDS.items()}


def type_name(dtype, place=None):
    """The name of the type of tensors of a dtype: torch.cuda.FloatTensor."""
    package = str(dtype).partition(".")[0]
    return f"{package}.{'cuda.' if place else ''}{_NAMES.get(dtype, str(dtype).partition('.')[2])}Tensor"


def resolve(kind):
    """(dtype, device or None) of a type given as a dtype, a type, or its name."""
    if isinstance(kind, str):
        parts = kind.split(".")
        table = CUDA if "cuda" in parts[:-1] else CPU
        if parts[-1] == "Tensor" and parts[0] in ("torch", "strata"):
            return _C.get_default_dtype(), "cuda" if "cuda" in parts else None
        if parts[0] not in ("torch", "strata") or parts[-1] not in table:
            raise ValueError(f"invalid type: {kind!r}; expected a name such as 'torch.FloatTensor'")
        kind = table[parts[-1]]
    if isinstance(kind, _TensorType):
        return kind.dtype, kind._place
    if kind is _C.Tensor:
        return _C.get_default_dtype(), None
    return kind, None


def set_default_tensor_type(kind):
    """Sets the default dtype, and for a type of torch.cuda the default device, of new tensors."""
    dtype, place = resolve(kind)
    if not isinstance(dtype, _C.dtype) or not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, found {kind}")
    if place:
        _C._set_default_device(place)
    _C.set_default_dtype(dtype)
