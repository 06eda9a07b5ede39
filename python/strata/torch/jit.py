"""torch.jit: script() returns what it is given, trace() the same with a graph behind it. There is no compiler; Python runs the
program. save() and load() write and read the graph."""

import builtins
import copyreg
import functools

from .._no_effect import NoEffect
from ..nn.module import Module
from ._jit_graph import TraceRecord

__all__ = ["export", "freeze", "ignore", "is_scripting", "is_tracing", "load", "save", "script", "trace", "unused"]


class ScriptModule(Module):
    """The base of modules that a program would compile; an ordinary Module here."""


class _Traced:
    """What trace() adds: the graph, its code, and save()."""

    @property
    def graph(self):
        """The fx.Graph of the program."""
        return self._trace_record.graph_module.graph

    inlined_graph = graph

    @property
    def code(self):
        """The Python code of the graph."""
        return self._trace_record.graph_module.code

    def save(self, f, _extra_files=None):
        """Writes the graph with its weights, as jit.save()."""
        save(self, f, _extra_files)


class TracedModule(_Traced, ScriptModule):
    """The type of traced modules: of the module's own type too, with its parameters, and run by its own code."""

    @property
    def original_name(self):
        """The name of the module's type."""
        return type(self).__name__

    def __reduce_ex__(self, protocol):  # a pickle holds the module; jit.save writes the graph
        return copyreg._reconstructor, (self._traced_type, object, None), dict(self.__dict__)


class ScriptFunction(_Traced):
    """A traced function."""

    def __init__(self, function, record):
        functools.update_wrapper(self, function)
        self._trace_record = record

    def __call__(self, *args, **kwargs):
        return self.__wrapped__(*args, **kwargs)


class RecursiveScriptModule(ScriptModule):
    """The type of scripted modules in PyTorch; script() returns modules of their own type here."""


class TracerWarning(Warning):
    """A warning of PyTorch's tracer; never given here."""


TopLevelTracedModule = TracedModule


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The module, function or class itself."""
    return obj


def trace(func, example_inputs=None, *args, check_trace=True, strict=True, example_kwarg_inputs=None, **kwargs):
    """The module or function, after one call with the example, with a `graph` and its `code`. Calls still run Python, so control
    flow by values stays; the graph, which save() writes, has what fx.symbolic_trace() finds or what the example ran."""
    inputs = example_inputs if builtins.isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    inputs, options = () if example_inputs is None else tuple(inputs), dict(example_kwarg_inputs or {})
    from ..autograd import no_grad

    with no_grad():
        func(*inputs, **options)
    if hasattr(func, "graph") and hasattr(func, "code"):  # traced already
        return func
    record = TraceRecord(func, inputs, options)
    if not builtins.isinstance(func, Module):
        return ScriptFunction(func, record)
    own = type(func)
    names = {"__module__": own.__module__, "_trace_record": record, "_traced_type": own}
    made = object.__new__(type(own.__name__, (TracedModule, own), names))
    made.__dict__ = func.__dict__
    return made


def trace_module(mod, inputs, *args, **kwargs):
    """trace() of a module; inputs is a dict with the example of `forward`."""
    if not builtins.isinstance(inputs, dict) or set(inputs) != {"forward"}:
        raise NotImplementedError(
            "torch.jit.trace_module: inputs must be a dict with one entry, 'forward'; other methods are not traced"
        )
    return trace(mod, inputs["forward"], *args, **kwargs)


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
    """Saves the graph of a module or function with its weights: that behind a traced one, else what fx.symbolic_trace() finds. load()
    needs none of its source.

    The types of modules that the graph calls must be those of torch.nn, or importable where the file is loaded."""
    from .. import fx
    from .files import write

    try:
        if builtins.isinstance(m, _Traced):
            graph = m._trace_record.graph_module
        else:
            graph = m if builtins.isinstance(m, fx.GraphModule) else fx.symbolic_trace(m)
    except Exception as error:
        raise NotImplementedError(
            f"torch.jit.save: the graph of {type(m).__name__} cannot be traced ({type(error).__name__}: {error}); pass "
            "what torch.jit.trace(m, example) returns, or save m.state_dict() with torch.save, or the whole module with torch.save(m, f)"
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
