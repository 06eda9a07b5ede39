"""The nodes of a graph, as `grad_fn` and `next_functions` show them."""

import re

from . import _C


class Node:
    """A node of the graph that backward() walks."""


class _NodeHookHandle:
    """Removes a hook of a node: by remove(), or at the end of a with block."""

    def __init__(self, node, ident):
        self._node, self.id = node, ident

    def remove(self):
        _C._remove_node_hook(self._node, self.id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class _TwoHandles:
    """Removes two hooks together."""

    def __init__(self, *handles):
        self._handles = handles

    def remove(self):
        for handle in self._handles:
            handle.remove()


class _Recorded(Node):
    """The op that computed a tensor, as `grad_fn` shows it."""

    def __init__(self, op, node):
        self.op, self._node = op, node

    @property
    def next_functions(self):
        """The targets of the inputs' gradients: pairs of a function (None: none) and an output index."""
        return tuple((wrap_edge(target), output) for target, output in _C._next_functions(self._node))

    def register_hook(self, hook):
        """Calls hook(grad_inputs, grad_outputs) after the node has run; a returned tuple replaces grad_inputs."""
        return _NodeHookHandle(self._node, _C._node_hook(self._node, hook, False))

    def register_prehook(self, hook):
        """Calls hook(grad_outputs) before the node runs; a returned tuple replaces them."""
        return _NodeHookHandle(self._node, _C._node_hook(self._node, hook, True))

    @property
    def metadata(self):
        """A dict of the user that lives as long as the node."""
        return _C._node_metadata(self._node)

    def __eq__(self, other):
        return isinstance(other, _Recorded) and _C._node_id(self._node) == _C._node_id(other._node)

    def __hash__(self):
        return hash(_C._node_id(self._node))

    def name(self):
        return type(self).__name__

    def __repr__(self):
        return f"<{self.name()}>"


class AccumulateGrad(Node):
    """The end of the graph: adds to the .grad of a leaf, `variable`."""

    next_functions = ()

    def __init__(self, variable):
        self.variable = variable

    def register_prehook(self, hook):
        """Calls hook((grad,)) before the gradient is added to .grad; a returned tuple replaces it."""

        def call(grad):
            found = hook((grad,))
            return found[0] if isinstance(found, tuple) else found

        return self.variable.register_hook(call)

    def register_hook(self, hook):
        """Calls hook((), (grad,)) after the gradient has been added to .grad."""
        last = []
        return _TwoHandles(
            self.variable.register_hook(lambda grad: last.append(grad)),
            self.variable.register_post_accumulate_grad_hook(lambda leaf: hook((), (last.pop(),)) and None),
        )

    def __eq__(self, other):
        return isinstance(other, AccumulateGrad) and self.variable is other.variable

    def __hash__(self):
        return hash(id(self.variable))

    def name(self):
        return "AccumulateGrad"

    def __repr__(self):
        return "<AccumulateGrad>"


_types = {}  # op -> the type of its nodes


def _type_of(op):
    """The type of an op's nodes, whose name programs that draw graphs print. A user's function keeps its name: MineBackward."""
    name = "".join(p[:1].upper() + p[1:] for p in re.split("[._]", op))
    name += "" if op.endswith("Backward") else "Backward0"
    kind = _types[op] = type(name, (_Recorded,), {"__doc__": f"A node of {op}."})
    return kind


def wrap_edge(target):
    """The node, or the end of the graph, that the gradient of an input goes to."""
    if type(target) is tuple:
        op, node = target
        return (_types.get(op) or _type_of(op))(op, node)
    return None if target is None else AccumulateGrad(target)
