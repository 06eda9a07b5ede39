"""Names of torch._C that libraries use, which Strata's extension module does not have: answers of a program that is
neither traced nor compiled."""

import contextlib
import importlib
import types

from .. import _C

_TensorMeta = type(_C.Tensor)


def _get_tracing_state():
    """None: nothing is traced."""


def _log_api_usage_once(name):
    """Accepted: nothing is logged."""


def _get_privateuse1_backend_name():
    """The name of a back end that nobody has registered."""
    return "privateuseone"


def _are_functorch_transforms_active():
    """False: transforms call their function with ordinary tensors."""
    return False


def _is_torch_function_mode_enabled():
    """Whether a TorchFunctionMode is active."""
    return _C._has_override(())


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of the arguments of Tensor.to()."""
    from ..nn.module import _conversion

    non_blocking = kwargs.pop("non_blocking", False)
    if args and isinstance(args[-1], bool):
        *args, non_blocking = args
    device, dtype, memory_format = _conversion(*args, **kwargs)
    return None if device is None else _C.device(device), dtype, non_blocking, memory_format


_nn = types.SimpleNamespace(_parse_to=_parse_to)


def _is_alias_of(a, b):
    """Whether two tensors use the same memory."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _get_accelerator(check=False):
    """The device type of the GPU, or of the CPU if there is none."""
    from .accelerator import current_accelerator

    return current_accelerator() or _C.device("cpu")


class DispatchKey:
    """Keys of PyTorch's dispatcher: names only."""

    AutocastCPU, AutocastCUDA, AutocastXPU = "AutocastCPU", "AutocastCUDA", "AutocastXPU"
    CPU, CUDA, Meta, CompositeExplicitAutograd = "CPU", "CUDA", "Meta", "CompositeExplicitAutograd"
    CompositeImplicitAutograd, Autograd = "CompositeImplicitAutograd", "Autograd"


class DispatchKeySet(frozenset):
    """A set of keys of PyTorch's dispatcher."""

    def __new__(cls, key=()):
        return super().__new__(cls, (key,) if isinstance(key, str) else key)

    def __or__(self, other):
        return DispatchKeySet(super().__or__(other))


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys):
    """A with block without the given keys: autocast is off in it if one of them is an autocast key."""
    if not any(key.startswith("Autocast") for key in keys):
        yield
        return
    from ..amp import autocast

    with autocast("cpu", enabled=False), autocast("cuda", enabled=False):
        yield


def find(name):
    """A name of this file, for `torch._C.<name>`."""
    if name == "_functorch":
        return importlib.import_module("strata.torch._functorch_names")
    value = globals().get(name)
    if value is None or not (name.startswith("_") or name.startswith("Dispatch")):
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    return value
