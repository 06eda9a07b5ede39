"""Top-level functions that are not ops: type queries, and ops whose number of results depends on their flags."""

import builtins
import math

from . import _C

__all__ = [
    "broadcast_shapes",
    "are_deterministic_algorithms_enabled",
    "can_cast",
    "chain_matmul",
    "finfo",
    "from_dlpack",
    "frombuffer",
    "get_default_device",
    "get_printoptions",
    "iinfo",
    "is_complex",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_nonzero",
    "is_tensor",
    "numel",
    "result_type",
    "scalar_tensor",
    "set_default_device",
    "set_printoptions",
    "tensordot",
    "to_dlpack",
    "use_deterministic_algorithms",
]

_tensor_type = _C.Tensor


def is_tensor(obj):
    """Whether obj is a Tensor."""
    return isinstance(obj, _tensor_type)


def is_floating_point(input):
    """Whether the dtype is a floating one."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the dtype is a complex one."""
    return input.is_complex()


def is_nonzero(input):
    """Whether the only element is not zero."""
    return builtins.bool(input)


def numel(input):
    """The number of elements."""
    return input.numel()


def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """A zero-dimensional tensor, of the default dtype unless another is given."""
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


def from_dlpack(ext_tensor):
    """A tensor over the memory of an array of another library."""
    return _C._from_dlpack(ext_tensor.__dlpack__() if hasattr(ext_tensor, "__dlpack__") else ext_tensor)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor over the memory of a buffer, from byte `offset` on; a read-only buffer is copied."""
    memory = memoryview(buffer).cast("B")
    size, left = dtype.itemsize, len(memory) - offset
    if len(memory) == 0 or count == 0:
        raise ValueError(f"frombuffer: both the buffer length ({len(memory)}) and count ({count}) must not be 0")
    if offset < 0 or left <= 0:
        raise ValueError(
            f"frombuffer: offset ({offset}) must be non-negative and smaller than the buffer ({len(memory)})"
        )
    if count < 0:
        if left % size:
            raise ValueError(
                f"frombuffer: {left} bytes from offset {offset} on are not a multiple of {dtype}'s {size} bytes"
            )
        count = left // size
    if count * size > left:
        raise ValueError(f"frombuffer: {count} elements of {size} bytes after offset {offset} exceed the buffer")
    import numpy as np

    raw = np.frombuffer(memory, np.uint8, count * size, offset)
    flat = _C.from_numpy(raw if raw.flags.writeable else raw.copy())
    if dtype is _C.bool or flat.data_ptr() % size == 0:
        out = flat.view(dtype)
    else:  # elements must be aligned to their size
        out = flat.clone().view(dtype)
    return out.requires_grad_() if requires_grad else out


def get_default_device():
    """The default device of new tensors, in this thread."""
    return _C._get_default_device()


def set_default_device(device):
    """Sets the default device of new tensors, in this thread; None is the CPU."""
    _C._set_default_device(device)


_deterministic = {"on": False, "warn_only": False}


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Every kernel is deterministic by default, for any number of threads. True also ends `backends.cuda.deterministic = False`."""
    if mode:
        _C._set_deterministic(True)
    _deterministic.update(on=builtins.bool(mode), warn_only=builtins.bool(mode) and builtins.bool(warn_only))


def are_deterministic_algorithms_enabled():
    """The last setting of use_deterministic_algorithms()."""
    return _deterministic["on"]


def is_deterministic_algorithms_warn_only_enabled():
    """Whether use_deterministic_algorithms() was called with warn_only."""
    return _deterministic["warn_only"]


def to_dlpack(tensor):
    """A DLPack capsule over the tensor's memory."""
    return _C._to_dlpack(tensor)


def result_type(tensor1, tensor2):
    """The promoted dtype of both."""
    return _C._result_type(tensor1, tensor2)


def can_cast(from_, to):
    """Whether a value of one dtype may be stored in another without leaving its category."""

    def rank(t):
        return 3 if t.is_complex else 2 if t.is_floating_point else 0 if t is _C.bool else 1

    return rank(from_) <= rank(to)


def broadcast_shapes(*shapes):
    """The shape that tensors of the given shapes broadcast to."""
    shapes = [(s,) if isinstance(s, builtins.int) else tuple(s) for s in shapes]
    out = []
    for k in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {s[-k] for s in shapes if len(s) >= k} - {1}
        if len(sizes) > 1:
            raise RuntimeError(
                f"Shape mismatch: objects cannot be broadcast to a single shape: {', '.join(map(str, shapes))}"
            )
        out.append(sizes.pop() if sizes else 1)
    return _C.Size(reversed(out))


class finfo:
    """The limits of a floating dtype."""

    def __init__(self, dtype=None):
        dtype = dtype or _C.get_default_dtype()
        self.dtype = str(dtype).split(".")[-1]
        dtype = dtype.to_real() if dtype.is_complex else dtype
        if not dtype.is_floating_point:
            raise TypeError(f"finfo() needs a floating-point dtype, got {dtype}; use iinfo()")
        self.bits = dtype.itemsize * 8
        digits, self.max = dtype._limits
        mantissa, exponent = digits - 1, self.bits - digits
        self.min, self.eps = -self.max, 2.0**-mantissa
        self.tiny = self.smallest_normal = math.ldexp(1.0, 2 - 2 ** (exponent - 1))
        self.resolution = 10.0 ** -math.floor(mantissa * math.log10(2))

    def __repr__(self):
        return f"finfo(resolution={self.resolution}, min={self.min}, max={self.max}, eps={self.eps}, smallest_normal={self.tiny}, tiny={self.tiny}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, dtype):
        self.dtype = str(dtype).split(".")[-1]
        if dtype.is_floating_point or dtype.is_complex or self.dtype == "bool":
            raise TypeError(f"iinfo() needs an integer dtype, got {dtype}; use finfo()")
        self.bits = dtype.itemsize * 8
        self.min, self.max = (
            (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1) if dtype.is_signed else (0, 2**self.bits - 1)
        )

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_PROFILES = {
    "default": dict(precision=4, threshold=1000, edgeitems=3, linewidth=80),
    "short": dict(precision=2, threshold=1000, edgeitems=2, linewidth=80),
    "full": dict(precision=4, threshold=2**62, edgeitems=3, linewidth=80),
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed; the arguments are PyTorch's."""
    options = get_printoptions()
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: unknown profile {profile!r}; expected one of {', '.join(_PROFILES)}")
        options.update(_PROFILES[profile])
    given = dict(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth)
    options.update({k: v for k, v in given.items() if v is not None}, sci_mode=sci_mode)  # None: by the values
    if threshold == math.inf:
        options["threshold"] = 2**62
    _C._set_printoptions(**options)


def get_printoptions():
    """The options in use."""
    return _C._get_printoptions()


@_C._overridable
def chain_matmul(*matrices, out=None):
    """The product of several matrices in the cheapest order."""
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = matrices[0]
    result = _C.ops["chain_matmul"](list(matrices))
    return result if out is None else out.copy_(result)


@_C._overridable
def tensordot(a, b, dims=2, out=None):
    """Sums of products over `dims`: a number of dimensions, or the dimensions of a and those of b."""
    if is_tensor(dims):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        left, right = dims if len(dims) == 2 else (dims, dims)
        left = [left] if isinstance(left, builtins.int) else list(left)
        right = [right] if isinstance(right, builtins.int) else list(right)
    else:
        if dims < 0 or dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot: expects dims >= 0 and at most the number of dimensions, but got dims={dims}"
            )
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    result = _C.ops["tensordot"](a, b, left, right)
    return result if out is None else out.copy_(result)
