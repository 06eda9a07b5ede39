"""strata.compile(): a function or module whose pointwise ops are computed in groups, with the results of single ops."""

import functools
import inspect
import warnings

from . import _C
from ._explain import Variants, explain
from .nn import Module

# PyTorch's names of back ends are accepted, so that its programs run; all mean this compiler.
BACKENDS = ("strata", "inductor", "aot_eager", "cudagraphs", "eager")
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_SWITCH = _C._compile_mode()  # STRATA_COMPILE


def _hooks_of_all_modules():
    from .nn import _global_hooks as tables

    return [
        tables.forward_pre_hooks,
        tables.forward_hooks,
        tables.backward_hooks,
        tables.backward_pre_hooks,
        tables.hooks_with_kwargs,
        tables.hooks_always_called,
    ]


class CompiledFunction:
    """A function that computes its pointwise ops in groups; see compile()."""

    def __init__(self, function, replay=False, fullgraph=False):
        functools.update_wrapper(self, function)
        self._function = function
        self._fullgraph = fullgraph
        self._replay = _C.Replay(function, _hooks_of_all_modules(), fullgraph) if replay else None

    def __call__(self, *args, **kwargs):
        if self._replay is not None:
            return self._replay(*args, **kwargs)
        return _C._call_deferred(self._function, args, kwargs)

    def variants(self):
        """The graphs that calls replay; see Variants."""
        return Variants(self._replay)

    def __reduce__(self):  # a copy records its own graphs
        return CompiledFunction, (self._function, self._replay is not None, self._fullgraph)

    def __get__(self, owner, kind=None):
        return self if owner is None else functools.partial(self, owner)

    def explain(self, *args, **kwargs):
        """Calls the function, and returns what happened: the ops, the groups that were computed together; see Explanation."""
        return explain(self._function, self._replay, args, kwargs)

    def __repr__(self):
        return f"<compiled {self._function!r}>"


class OptimizedModule(Module):
    """A module whose calls are compiled. Its attributes are those of the module it was made from, `_orig_mod`."""

    def __init__(self, module, replay=False, fullgraph=False):
        super().__init__()
        self.__dict__["_compiled"] = CompiledFunction(module, replay, fullgraph)
        self._modules["_orig_mod"] = module
        self.__dict__["training"] = module.training

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    forward = __call__

    def explain(self, *args, **kwargs):
        """Calls the module, and returns what happened: the ops, the groups that were computed together; see Explanation."""
        return self._compiled.explain(*args, **kwargs)

    def variants(self):
        """The graphs that calls replay; see Variants."""
        return self._compiled.variants()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_modules" or "_orig_mod" not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name in self.__dict__ or "_orig_mod" not in self.__dict__.get("_modules", {}):
            return super().__setattr__(name, value)
        setattr(self._modules["_orig_mod"], name, value)

    def __reduce__(self):
        compiled = self._compiled
        return OptimizedModule, (self._modules["_orig_mod"], compiled._replay is not None, compiled._fullgraph)


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend="strata",
    mode=None,
    options=None,
    disable=False,
    replay=False,
):
    """A function or module that gives the same results and computes pointwise ops in groups.

    A group is computed in one pass over memory (on GPUs by one kernel, which NVRTC compiles at the first call), when one of its
    results is needed, or when the function returns; results that nobody holds by then are not stored. Python code runs at every
    call, so nothing can be out of date: shapes, control flow, hooks and exceptions are those of the plain call, and there are no
    graph breaks. `compiled.explain(...)` shows the groups. `STRATA_COMPILE=0` in the environment returns the model itself.

    With `replay=True` (or `mode="reduce-overhead"`), Python code runs in some calls only: the others run the graph of an earlier
    call, while the arguments are alike and nothing that the function can see has changed. `compiled.variants()` shows the graphs,
    and why calls are not replayed; with `fullgraph=True` that is an error. `dynamic` is accepted and changes nothing.
    """
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            replay=replay,
        )
    if not callable(model):
        raise TypeError(f"compile: expected a function or a module, got {type(model).__name__}")
    if not callable(backend) and backend not in BACKENDS:
        raise ValueError(f"compile: there is no backend {backend!r}; expected one of {', '.join(BACKENDS)}")
    if mode not in MODES:
        raise ValueError(f"compile: there is no mode {mode!r}; expected one of {', '.join(map(str, MODES))}")
    if inspect.iscoroutinefunction(model) or inspect.isasyncgenfunction(model):
        raise TypeError(
            "compile: a coroutine runs after its call has returned; compile the functions that it calls instead"
        )
    if callable(backend):
        warnings.warn("compile: a backend that is a function gets no graph here, so it is not called", stacklevel=2)
    if disable or backend == "eager" or _SWITCH == "0":
        return model
    if isinstance(model, OptimizedModule | CompiledFunction):
        return model
    kind = OptimizedModule if isinstance(model, Module) else CompiledFunction
    return kind(model, replay or mode == "reduce-overhead", fullgraph)


if _SWITCH == "everywhere":  # for tests
    from . import _everywhere

    _everywhere.begin()
