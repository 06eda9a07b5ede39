"""Methods of Tensor that are written in Python: conversions, copying, hooks."""

import copyreg

from . import _C
from ._grad_fn import wrap_edge

Tensor = _C.Tensor


def _method(f):
    setattr(Tensor, f.__name__, f)
    return f


def _cast(name, dtype):
    def cast(self, memory_format=None):
        return self.to(dtype)

    cast.__name__, cast.__doc__ = name, f"The tensor converted to {dtype}."
    return cast


def _add_casts():
    names = dict(
        float="float32",
        double="float64",
        half="float16",
        bfloat16="bfloat16",
        int="int32",
        long="int64",
        short="int16",
        char="int8",
        byte="uint8",
        bool="bool",
        cfloat="complex64",
        cdouble="complex128",
    )
    for name, target in names.items():
        setattr(Tensor, name, _cast(name, getattr(_C, target)))


_add_casts()


@_method
def numpy(self, *, force=False):
    """A NumPy array over the same memory; force=True detaches and converts what NumPy lacks."""
    import numpy as np

    if force:
        self = self.detach()
        if self.dtype in (_C.bfloat16, _C.float8_e4m3fn, _C.float8_e5m2):
            self = self.to(_C.float32)
    if self.dim() == 0:  # NumPy would copy a buffer without dimensions
        return np.asarray(memoryview(self.view(1))).reshape(())
    return np.asarray(memoryview(self))


@_method
def _repr_html_(self):
    """A table for notebooks."""
    from ._notebook import tensor_html

    return tensor_html(self)


@_method
def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    return array if dtype is None else array.astype(dtype, copy=False)


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """The result of a NumPy function of this tensor, as a tensor over the array's memory."""
    return _C.asarray(array)


Tensor.__array_priority__ = 1000


@_method
def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if self.is_meta:
        raise BufferError("Cannot pack tensors on meta")
    return _C._to_dlpack(self.clone() if copy else self)


@_method
def __dlpack_device__(self):
    if self.is_meta:
        raise ValueError("Unknown device type meta for Dlpack")
    return (1, 0)


@_method
def __array_namespace__(self, /, *, api_version=None):
    """The functions of the Python array API standard for tensors: strata.array_api."""
    from . import array_api

    known = ("2021.12", "2022.12", "2023.12", "2024.12")
    if api_version not in (None, *known):
        raise ValueError(f"unsupported version of the array API: {api_version!r}; expected one of {', '.join(known)}")
    return array_api


@_method
def to_device(self, device, /, *, stream=None):
    """The tensor on another device, as the array API standard names it."""
    if stream is not None:
        raise ValueError("to_device: copies use the current stream of the device; stream must be None")
    return self.to(device=device)


@_method
def cpu(self, memory_format=None):
    """The tensor on the CPU."""
    return self.to("cpu", memory_format=memory_format)


def _cuda_device(device):
    """The device of .cuda(device): None is the current device, a number one of the CUDA devices."""
    return "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device


@_method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    """The tensor on a CUDA device, or an error that says why there is none."""
    return self.to(_cuda_device(device), non_blocking=non_blocking, memory_format=memory_format)


@_method
def register_hook(self, hook):
    """Calls hook(grad) whenever this tensor's gradient is computed; a returned tensor replaces it."""
    return _HookHandle(self, _C._register_hook(self, hook))


@_method
def register_post_accumulate_grad_hook(self, hook):
    """Calls hook(tensor) after backward() has added to this leaf's .grad."""
    return _HookHandle(self, _C._register_post_accumulate_grad_hook(self, hook))


class _HookHandle:
    """Removes a hook: by remove(), or at the end of a with block."""

    def __init__(self, tensor, ident):
        self.tensor, self.id = tensor, ident

    def remove(self):
        _C._remove_hook(self.tensor, self.id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _grad_fn(self):
    return wrap_edge(_C._grad_fn(self))


Tensor.grad_fn = property(_grad_fn, doc="The op that computed this tensor, None for a leaf.")


@_method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A copy of data with this tensor's dtype unless another is given."""
    return _C.tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


@_method
def is_same_size(self, other):
    """Whether the shapes are equal."""
    return self.shape == other.shape


@_method
def apply_(self, fn):
    """Replaces each element by fn(element): slow, for the CPU."""
    flat = [fn(v) for v in self.flatten().tolist()]
    with _no_grad():
        self.copy_(_C.tensor(flat, dtype=self.dtype).reshape(self.shape))
    return self


@_method
def share_memory_(self):
    """Moves the tensor into memory that other processes can map: see strata.multiprocessing."""
    from .multiprocessing import share

    return share(self)


@_method
def is_shared(self):
    """Whether other processes can map the tensor's memory."""
    import sys

    module = sys.modules.get(f"{__package__}.multiprocessing")
    return self.device.type in ("cuda", "vgpu") if module is None else module.is_shared(self)


@_method
def pin_memory(self, device=None):
    """A copy in page-locked memory, which a device copies asynchronously; the tensor itself if it is already there, or there
    is no device to pin memory for."""
    kind = _C.device(device).type if device is not None else "cuda" if _C._device_count("cuda") else "vgpu"
    return _C._pin_memory(kind, self) if _C._device_count(kind) else self


@_method
def is_pinned(self, device=None):
    """Whether the tensor is in page-locked memory."""
    return _C._is_pinned(self)


@_method
def record_stream(self, stream):
    """Delays reuse of the memory, once freed, until the stream's current work with it is done."""
    _C._record_stream(self, stream._handle)


@_method
def __format__(self, spec):
    if self.dim() == 0 and not self.is_meta and self.__class__ is Tensor:
        return format(self.item(), spec)
    return object.__format__(self, spec) if spec else repr(self)


def _no_grad():
    from .autograd import no_grad

    return no_grad()


# --- copying and pickling: by value --------------------------------------------------------------------------------------


def _rebuild(cls, data, dtype, shape, requires_grad, state):
    return _finish(cls, _C._from_bytes(data, dtype, shape), requires_grad, state)


def _rebuild_meta(cls, stride, dtype, shape, requires_grad, state):
    return _finish(cls, _C.ops["empty_strided"](shape, stride, dtype=dtype, device="meta"), requires_grad, state)


def _finish(cls, tensor, requires_grad, state):
    if cls is not Tensor:
        tensor = Tensor._make_subclass(cls, tensor, requires_grad)
    elif requires_grad:
        tensor.requires_grad_()
    if state:
        tensor.__dict__.update(state)
    return tensor


@_method
def __reduce_ex__(self, protocol):
    state = self.__dict__ or None
    rest = (self.dtype, tuple(self.shape), self.requires_grad, state)
    if self.is_meta:
        return _rebuild_meta, (self.__class__, self.stride(), *rest)
    return _rebuild, (self.__class__, _C._to_bytes(self.detach().contiguous()), *rest)


@_method
def __copy__(self):
    """Another tensor over the same memory."""
    made = self.detach()
    if self.__class__ is not Tensor:
        made = Tensor._make_subclass(self.__class__, made, self.requires_grad)
    elif self.requires_grad:
        made.requires_grad_()
    made.__dict__.update(self.__dict__)
    return made


@_method
def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment; detach() it first"
        )
    import copy

    with _no_grad():
        out = self.detach().clone()
    if self.__class__ is not Tensor:
        out = Tensor._make_subclass(self.__class__, out, self.requires_grad)
    elif self.requires_grad:
        out.requires_grad_()
    if self.__dict__:
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    if self.grad is not None:
        out.grad = copy.deepcopy(self.grad, memo)
    memo[id(self)] = out
    return out


def _dtype_named(name):
    return getattr(_C, name)


copyreg.pickle(_C.device, lambda d: (_C.device, (str(d),)))
copyreg.pickle(_C.Size, lambda s: (_C.Size, (tuple(s),)))
copyreg.pickle(_C.dtype, lambda t: (_dtype_named, (str(t).split(".")[-1],)))
