"""torch.overrides: functions for types that handle calls themselves by defining __torch_function__."""

import contextlib
import functools
import types

from .. import _C
from .._overrides import DisableTorchFunction as DisableTorchFunction
from .._overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass


def has_torch_function(relevant_args):
    """Whether one of the arguments handles calls itself, or a TorchFunctionMode is active."""
    return _C._has_override(relevant_args)


def has_torch_function_unary(arg):
    """has_torch_function for one argument."""
    return _C._has_override((arg,))


def has_torch_function_variadic(*args):
    """has_torch_function for arguments given one by one."""
    return _C._has_override(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """The result of the first handler that does not return NotImplemented: of modes, then of the relevant arguments."""
    return _C._handle_override(public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher):
    """A decorator of functions that arguments may handle; dispatcher(*args, **kwargs) returns those to ask."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if _C._has_override(relevant):
                return _C._handle_override(call, relevant, args, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def is_tensor_like(obj):
    """Whether obj is a Tensor or its type defines __torch_function__."""
    return type(obj) is _C.Tensor or hasattr(obj, "__torch_function__")


def _tensor_attributes():
    """Tensor's methods by name, and the __get__ of its properties."""
    found = {}
    for name in dir(_C.Tensor):
        value = getattr(_C.Tensor, name)
        if isinstance(value, (types.GetSetDescriptorType, property)):
            found[f"{name}.__get__"] = value.__get__
        elif callable(value) and not isinstance(value, type):
            found[name] = value
    return found


def is_tensor_method_or_property(func):
    """Whether func is a method of Tensor, or the __get__ of one of its properties."""
    owner = getattr(func, "__self__", None)
    if getattr(func, "__name__", "") == "__get__":
        return getattr(_C.Tensor, getattr(owner, "__name__", ""), None) is owner
    return getattr(_C.Tensor, getattr(func, "__name__", ""), None) is func


@functools.lru_cache(None)
def _public_functions():
    """Namespace -> its functions by name."""
    import strata

    found = {}
    for space in (strata, strata.nn.functional, strata.linalg, strata.fft, strata.special):
        kinds = (_C.Op, _C._overridable)
        found[space] = {n: f for n, f in vars(space).items() if isinstance(f, kinds) and not n.startswith("_")}
    found[_C.Tensor] = _tensor_attributes()
    return found


def get_overridable_functions():
    """Namespace -> functions and methods whose calls a __torch_function__ sees."""
    return {space: list(functions.values()) for space, functions in _public_functions().items()}


def get_ignored_functions():
    """Functions that never call __torch_function__."""
    import strata

    return {
        f
        for f in vars(strata).values()
        if callable(f) and not isinstance(f, (type, _C.Op, _C._overridable)) and not f.__name__.startswith("_")
    }


def get_testing_overrides():
    """Function -> a function with any parameters that returns -1, for tests of handlers."""
    return {f: lambda *args, **kwargs: -1 for functions in get_overridable_functions().values() for f in functions}


def resolve_name(f):
    """The full name of a function, such as torch.nn.functional.relu; None for unknown ones."""
    if isinstance(f, _C.Op):
        return f"torch.{f.__reduce__()[1][0]}"
    for space, functions in _public_functions().items():
        for name, value in functions.items():
            if value is f:
                home = "torch.Tensor" if space is _C.Tensor else space.__name__.replace("strata", "torch", 1)
                return f"{home}.{name}"
    return None


class TorchFunctionMode:
    """A handler of all calls in its with block: subclasses define __torch_function__(self, func, types, args=(), kwargs=None).
    While it runs, its own calls go to the enclosing mode."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError("a TorchFunctionMode defines __torch_function__(self, func, types, args, kwargs)")

    def __enter__(self):
        _C._push_function_mode(self)
        return self

    def __exit__(self, *_):
        _C._pop_function_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """An older way to write `with cls(...)`."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs every function as it is."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    """The innermost active mode of this thread, None if there is none."""
    modes = _C._function_modes()
    return modes[-1] if modes else None


def _get_current_function_mode_stack():
    """The active modes of this thread, the innermost one last."""
    return _C._function_modes()


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """In the with block all handlers are called, also from inside one that turned them off."""
    before = _C._set_override_handlers(0)
    try:
        yield
    finally:
        _C._set_override_handlers(before)
