"""torch.jit: script() and trace() return what they are given. There is no compiler behind; Python runs the program. save() and
load() write and read the graph that fx finds."""

import builtins

from .._no_effect import NoEffect
from ..nn.module import Module

__all__ = ["export", "freeze", "ignore", "is_scripting", "is_tracing", "load", "save", "script", "trace", "unused"]


class ScriptModule(Module):
    """The base of modules that a program would compile; an ordinary Module here."""


class TracedModule(ScriptModule):
    """The type of traced modules in PyTorch; trace() returns modules of their own type here."""


class RecursiveScriptModule(ScriptModule):
    """The type of scripted modules in PyTorch; script() returns modules of their own type here."""


class TracerWarning(Warning):
    """A warning of PyTorch's tracer; never given here."""


ScriptFunction = type(lambda: None)
TopLevelTracedModule = TracedModule


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The module, function or class itself."""
    return obj


def trace(func, example_inputs=None, *args, check_trace=True, strict=True, example_kwarg_inputs=None, **kwargs):
    """The module or function itself, after one call with the example."""
    inputs = example_inputs if builtins.isinstance(example_inputs, tuple) else (example_inputs,)
    from ..autograd import no_grad

    with no_grad():
        func(*(() if example_inputs is None else inputs), **(example_kwarg_inputs or {}))
    return func


def trace_module(mod, inputs, *args, **kwargs):
    """The module itself."""
    return mod


def _same(fn=None, *args, **kwargs):
    return fn if callable(fn) else (lambda f: f)


script_method = export = unused = interface = script_if_tracing = _same
_overload = _overload_method = _script_if_tracing = _copy_to_script_wrapper = _same


def ignore(drop=False, **kwargs):
    """A decorator without effect, with or without arguments."""
    return drop if callable(drop) else (lambda f: f)


def is_scripting():
    """False: Python runs the program."""
    return False


is_tracing = is_scripting


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """The module itself, which must be in evaluation mode."""
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Call .eval() on your module."
        )
    return mod


def optimize_for_inference(mod, other_methods=None):
    """The module itself."""
    return mod


_GRAPH = "strata.jit.graph"


def save(m, f, _extra_files=None):
    """Saves the graph of a module or function, as fx.symbolic_trace() finds it, with its weights. load() needs none of its source.

    The types of modules that the graph calls must be those of torch.nn, or importable where the file is loaded."""
    from .. import fx
    from .files import write

    try:
        graph = m if builtins.isinstance(m, fx.GraphModule) else fx.symbolic_trace(m)
    except Exception as error:
        raise NotImplementedError(
            f"torch.jit.save: the graph of {type(m).__name__} cannot be traced ({type(error).__name__}: {error}); save "
            "m.state_dict() with torch.save, or the whole module with torch.save(m, f)"
        ) from error
    if builtins.isinstance(m, Module):
        graph.train(m.training)
    write({_GRAPH: graph, "extra_files": dict(_extra_files or {})}, f)


def load(f, map_location=None, _extra_files=None):
    """What save() wrote, as a module. It unpickles, so the file must be trusted; files of PyTorch's own jit are not read."""
    from .. import load as load_any

    try:
        found = load_any(f, map_location=map_location, weights_only=False)
    except (RuntimeError, ValueError, KeyError) as error:
        raise RuntimeError(
            f"torch.jit.load: the file has no graph that torch.jit.save wrote ({error}); programs of PyTorch's TorchScript "
            "cannot be read: build the model in Python and load its state_dict with torch.load"
        ) from error
    if not builtins.isinstance(found, dict) or _GRAPH not in found:
        raise RuntimeError("torch.jit.load: the file has no graph that torch.jit.save wrote; use torch.load")
    for name in _extra_files or {}:
        if name in found["extra_files"]:
            _extra_files[name] = found["extra_files"][name]
    return found[_GRAPH]


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type):
    """Whether obj is an instance of the type."""
    return builtins.isinstance(obj, target_type)


class Attribute:
    """A value with a type, for ScriptModules."""

    def __new__(cls, value, type):
        return value


Final = dict  # an annotation: Final[int]


def wait(future):
    """The result of fork()."""
    return future


def fork(func, *args, **kwargs):
    """Calls the function at once."""
    return func(*args, **kwargs)


def set_fusion_strategy(strategy):
    """Accepted: nothing is fused."""


def enable_onednn_fusion(enabled):
    """Accepted: nothing is fused."""


optimized_execution = fuser = strict_fusion = NoEffect
