"""torch.utils._python_dispatch: the question that packages ask of every tensor. The rest raises when it is used."""

from .. import _C
from ._missing import missing


def is_traceable_wrapper_subclass(t):
    """Whether t is a tensor made of others, which it names by __tensor_flatten__()."""
    kind = t if isinstance(t, type) else type(t)
    named = hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")
    return named and issubclass(kind, _C.Tensor) and kind is not _C.Tensor


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.utils._python_dispatch' has no attribute '{name}'")
    return missing(f"torch.utils._python_dispatch.{name}")
