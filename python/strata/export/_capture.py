"""Captures of a program with its arguments: once, or at several sizes for one graph that serves all."""

import inspect

from .. import _C
from ..autograd import no_grad
from ..nn.module import Module
from ..random import get_rng_state, set_rng_state
from ..utils import _pytree as pytree

TENSOR = object()  # in the place of a tensor among the leaves of the results


class Capture:
    """A program with its arguments. graph() captures it; then out_spec has the tree of its results."""

    composites = True  # whether ops that are made of others are captured as themselves

    def __init__(self, mod, args, kwargs):
        self.mod = mod
        module = mod if isinstance(mod, Module) else None
        self.parameters = dict(module.named_parameters()) if module else {}
        self.states = {**self.parameters, **(dict(module.named_buffers()) if module else {})}
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        self.fixed = {i: leaf for i, leaf in enumerate(self.leaves) if not isinstance(leaf, _C.Tensor)}
        self.tensors = [leaf for leaf in self.leaves if isinstance(leaf, _C.Tensor)]
        self.names = _input_names(args, kwargs)
        self.out_spec = None
        self._rng = get_rng_state()

    def graph(self, varying):
        """The handle of the graph, for all sizes of the dimensions that vary."""
        with no_grad(), _Unchanged(self.mod), Scopes(self.mod):
            return self._for_all_sizes(varying) if varying.dims else self._run(self.tensors)

    def _run(self, tensors):
        """The graph of a call with these tensors in the place of the example's."""

        def program(given):
            rest = iter(given)
            filled = [leaf if i in self.fixed else next(rest) for i, leaf in enumerate(self.leaves)]
            args, kwargs = pytree.tree_unflatten(filled, self.in_spec)
            results, spec = pytree.tree_flatten(self.mod(*args, **kwargs))
            out_spec = spec, [TENSOR if isinstance(r, _C.Tensor) else r for r in results]
            if self.out_spec is not None and self.out_spec != out_spec:
                raise RuntimeError(
                    "export: for other sizes the program returns other numbers or containers; it should return tensors that "
                    "follow from its inputs"
                )
            self.out_spec = out_spec
            return [r for r in results if isinstance(r, _C.Tensor)]

        set_rng_state(self._rng)
        inputs = [t.detach().clone() for t in tensors]  # objects of their own: one tensor may be given twice
        return _C._graph_capture(program, inputs, list(self.states.items()), self.names, False, self.composites)

    def _for_all_sizes(self, varying):
        def captured(point):
            return self._run(varying.resized(self.tensors, point))

        points = varying.points(self.tensors)
        handles = [captured(point) for point in points]
        smallest = [1 if dim.min is None else dim.min for dim in varying.dims]
        checked_at_limits = all(dim.min is not None for dim in varying.dims)
        try:  # many programs are the same for size 1
            return _C._graph_generalize(
                [*handles, captured(smallest)], [*points, smallest], varying.limits(1), varying.axes
            )
        except (RuntimeError, ValueError, IndexError):
            if checked_at_limits:
                raise
        smallest = [2 if dim.min is None else dim.min for dim in varying.dims]
        return _C._graph_generalize(
            [*handles, captured(smallest)], [*points, smallest], varying.limits(2), varying.axes
        )


class _Unchanged:
    """Puts back the buffers of a module and the state of the generator: exporting has no effects."""

    def __init__(self, mod):
        self._buffers = list(mod.buffers()) if isinstance(mod, Module) else []

    def __enter__(self):
        self._values = [b.detach().clone() for b in self._buffers]
        self._versions = [b._version for b in self._buffers]
        self._rng = get_rng_state()

    def __exit__(self, *_):
        set_rng_state(self._rng)
        for buffer, value, version in zip(self._buffers, self._values, self._versions, strict=True):
            if buffer._version != version:
                buffer.copy_(value)


class Scopes:
    """While it is open, nodes know which child of the module called them."""

    def __init__(self, mod):
        self._hooks = []
        for name, child in mod.named_modules() if isinstance(mod, Module) else ():
            if name:
                self._watch(name, child)

    def _watch(self, name, child):
        before = []

        def enter(*_):
            before.append(_C._graph_scope(name))

        def leave(*_):
            if before:
                _C._graph_scope(before.pop())

        self._hooks.append(child.register_forward_pre_hook(enter, prepend=True))
        self._hooks.append(child.register_forward_hook(leave, always_call=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()
        _C._graph_scope("")


def argument_names(mod, args, kwargs):
    """The names of the parameters that the positional arguments are for."""
    try:
        signature = inspect.signature(mod.forward if isinstance(mod, Module) else mod)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [f"args_{i}" for i in range(len(args))]
    names = []
    for name, value in bound.arguments.items():
        several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}_{i}" for i in range(len(value))] if several else [name]
    return names[: len(args)]


def _input_names(args, kwargs):
    """A name for each tensor: that of the keyword, or args_0, args_1_0, ..."""
    names = []
    for path, leaf in pytree.tree_flatten_with_path((args, kwargs))[0]:
        if isinstance(leaf, _C.Tensor):
            which, *steps = [str(getattr(step, "idx", getattr(step, "key", step))) for step in path]
            names.append("_".join(steps if which == "1" else ["args", *steps]))
    return names
