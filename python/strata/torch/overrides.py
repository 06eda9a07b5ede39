"""torch.overrides: the hooks of tensor-like types. Strata calls no __torch_function__, so every question is answered no."""

from .. import _C


def has_torch_function(args):
    """False."""
    return False


def has_torch_function_unary(arg):
    """False."""
    return False


def has_torch_function_variadic(*args):
    """False."""
    return False


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls the function itself."""
    return public_api(*args, **kwargs)


def is_tensor_like(obj):
    """Whether obj is a Tensor."""
    return isinstance(obj, _C.Tensor)


def is_tensor_method_or_property(func):
    """Whether func is a method of Tensor."""
    return getattr(_C.Tensor, getattr(func, "__name__", ""), None) is func


def get_ignored_functions():
    """None."""
    return set()


def get_overridable_functions():
    """None."""
    return {}


def resolve_name(f):
    """The full name of a function."""
    return f"torch.{getattr(f, '__name__', f)}"


def wrap_torch_function(dispatcher):
    """A decorator without effect."""
    return lambda f: f


class TorchFunctionMode:
    """Not in this version: raises when it is entered."""

    def __enter__(self):
        raise NotImplementedError("TorchFunctionMode is not in this version of Strata; use strata.tracing() to see ops")

    def __exit__(self, *_):
        pass
