"""The graph behind jit.trace(): what fx.symbolic_trace() finds, which holds for inputs of any size, or where Python decides by
values, the functions that one call with the example ran."""

import operator

from .. import _C
from ..fx import Graph, GraphModule, symbolic_trace
from ..fx.graph_module import _assign_attr
from ..fx.node import map_aggregate, package_path
from ..nn.module import Module
from .overrides import TorchFunctionMode

_SLOTS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}


def _is_tensor(x):
    return isinstance(x, _C.Tensor)


def _any_tensor(x):
    found = []
    map_aggregate(x, lambda v: found.append(v) if _is_tensor(v) else v)
    return bool(found)


class _Recorder(TorchFunctionMode):
    """Makes a node of every function with tensors. Numbers that the program computes, such as sizes, become constants."""

    def __init__(self, target):
        self.graph, self.root = Graph(), {}
        self.nodes, self.alive = {}, []  # by the id of a tensor, which must stay alive
        module = target if isinstance(target, Module) else None
        named = [*module.named_parameters(), *module.named_buffers()] if module else []
        self.names = {id(t): (name, t) for name, t in named}

    def keep(self, value, node):
        """The node computes these tensors."""
        if _is_tensor(value):
            self.nodes[id(value)] = node
            self.alive.append(value)
        elif isinstance(value, (tuple, list, dict)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, part in items:
                if _any_tensor(part):
                    self.keep(part, self.graph.call_function(operator.getitem, (node, key)))

    def node_of(self, value):
        if not _is_tensor(value):
            return value
        if id(value) not in self.nodes:
            name, held = self.names.get(id(value), (f"_constant{len(self.root)}", value))
            self.root[name] = held
            self.keep(value, self.graph.get_attr(name))
        return self.nodes[id(value)]

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if not (_any_tensor(out) or (out is None and _any_tensor(args))):
            return out
        args, kwargs = map_aggregate(tuple(args), self.node_of), map_aggregate(dict(kwargs), self.node_of)
        if name == "__get__":  # of a property
            node = self.graph.call_function(getattr, (args[0], func.__self__.__name__))
        elif name in _SLOTS:
            node = self.graph.call_function(_SLOTS[name], args, kwargs)
        elif package_path(func) is None and hasattr(_C.Tensor, name):
            node = self.graph.call_method(name, args, kwargs)
        else:
            node = self.graph.call_function(func, args, kwargs)
        self.keep(out, node)
        return out


def _recorded(target, inputs, options):
    recorder = _Recorder(target)
    # Objects of their own: one tensor may be given for two parameters.
    inputs, options = map_aggregate((inputs, options), lambda v: v.detach() if _is_tensor(v) else v)
    named = [(f"input_{i}", v) for i, v in enumerate(inputs, 1)] + list(options.items())
    for name, value in named:
        recorder.keep(value, recorder.graph.placeholder(name))
    with recorder:
        out = target(*inputs, **options)
    recorder.graph.output(map_aggregate(out, recorder.node_of))
    return GraphModule(recorder.root, recorder.graph)


class TraceRecord:
    """The graph of a module or function that was called with an example; found when it is first asked for."""

    def __init__(self, target, inputs, options):
        self._target, self._call, self._found = target, (inputs, options), None

    @property
    def graph_module(self):
        if self._found is None:
            self._found = self._trace()
        return self._found

    def _trace(self):
        target = self._target
        try:
            made = symbolic_trace(target)
        except Exception:  # of any kind: the program decides by values, or does what proxies cannot
            made = self._record()
        if isinstance(target, Module):
            made.train(target.training)
            have = made.state_dict().keys()
            for name, value in [*target.named_parameters(), *target.named_buffers()]:
                if name not in have and name in target.state_dict():
                    _assign_attr(value, made, name)
        return made

    def _record(self):
        from ..autograd import no_grad

        try:
            with no_grad():
                return _recorded(self._target, *self._call)
        except Exception as error:  # an AttributeError would look like a missing attribute of the module
            raise RuntimeError(
                f"torch.jit.trace: the calls of {getattr(self._target, '__name__', type(self._target).__name__)} have no "
                f"graph ({type(error).__name__}: {error}); its state_dict() can be saved"
            ) from error
