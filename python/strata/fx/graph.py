"""Graph: the nodes of a traced function in order, and ways to change them."""

import contextlib
import copy
import re

from ._codegen import CodeGen, Namespace, PythonCode
from .node import Node, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]
_Namespace = Namespace


def _snake_case(name):
    return re.sub(r"(?<!^)(?<![A-Z_])([A-Z])", r"_\1", name).lower()


def _target_to_str(target):
    """The base of a node's name."""
    if callable(target):
        name = getattr(target, "__name__", type(target).__name__)
    else:
        name = target
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
    return _snake_case(name)


class _NodeList:
    """The nodes of a graph in order; the graph may change while it is walked."""

    def __init__(self, graph, direction="_next"):
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self):
        return iter(_NodeList(self.graph, "_prev" if self.direction == "_next" else "_next"))


class Graph:
    """The nodes of a function. New nodes go to the end, or to where inserting_before() and inserting_after() say."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._len, self._insert = 0, self._root.prepend
        self._graph_namespace = Namespace()
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras or {}
        self._codegen, self._owning_module = CodeGen(), owning_module
        self._owners = 1 if owning_module is not None else 0

    @property
    def owning_module(self):
        """The GraphModule that this graph belongs to, None if there is none."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module):
        self._owning_module = module

    @property
    def nodes(self):
        """The nodes in order; can be walked in reverse."""
        return _NodeList(self)

    def _position(self, node):
        return next(i for i, n in enumerate(self.nodes) if n is node)

    def output_node(self):
        """The output, which is the last node."""
        last = next(iter(reversed(self.nodes)))
        if last.op != "output":
            raise AssertionError("the graph has no output node at its end")
        return last

    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of this kind, with this target for calls of functions."""
        found = [n for n in self.nodes if n.op == op]
        return found if target is None else [n for n in found if n.target == target]

    # --- making nodes -------------------------------------------------------------------------------------------------

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Adds a node."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(f"args must be a tuple and kwargs a dict, got {type(args)} and {type(kwargs)}")
        candidate = name if name is not None else _target_to_str(target)
        node = Node(self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name, type_expr=None, default_value=...):
        """An input of the function."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """A parameter, buffer or other attribute of the module."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, qualified_name):
            import warnings

            warnings.warn(
                f"Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule: {qualified_name}",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """A call of a child of the module."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, module_name):
            import warnings

            warnings.warn(
                f"Attempted to insert a call_module Node with no underlying reference in the owning GraphModule: {module_name}",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None):
        """The result of the function."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node of another graph; arg_transform maps its input nodes to nodes of this one."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies the nodes of g except its output into this graph; val_map gets node -> copy. Returns the output's value."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        copied, values = Graph(tracer_cls=self._tracer_cls), {}
        copied._codegen = copy.deepcopy(self._codegen)
        found = copied.graph_copy(self, values, return_output_node=True)
        if isinstance(found, tuple):
            value, old = found
            made = copied.create_node("output", "output", (value,), {}, old.name, old.type)
            made.meta = copy.copy(old.meta)
        if memo is not None:
            memo[id(self)] = copied
        return copied

    # --- changing nodes -----------------------------------------------------------------------------------------------

    def erase_node(self, to_erase):
        """Removes a node that nothing uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._unlink()
        to_erase._erased = True  # its links stay: a loop over the nodes goes on from it
        self._len -= 1
        to_erase._set_inputs((), {})

    @contextlib.contextmanager
    def _inserting(self, insert):
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n=None):
        """In the with block, new nodes go before n; without n, to the start of the graph."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return self._inserting(n.prepend)

    def inserting_after(self, n=None):
        """In the with block, new nodes go after n; without n, to the end of the graph."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        place = [n]

        def insert(node):
            place[0].append(node)
            place[0] = node  # further nodes go after this one

        return self._inserting(insert)

    def eliminate_dead_code(self, is_impure_node=None):
        """Removes nodes without users and side effects; returns whether there were any."""
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = is_impure_node(node) if is_impure_node is not None else node.is_impure()
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    def lint(self):
        """Raises RuntimeError if a node uses a later one, a name occurs twice, or a target does not exist."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                if not _has_attribute(self.owning_module, node.target):
                    raise RuntimeError(
                        f"Node {node} target {node.target} references nonexistent attribute of {type(self.owning_module).__name__}"
                    )

    # --- code and text ------------------------------------------------------------------------------------------------

    def set_codegen(self, codegen):
        """Changes how code is generated."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """A handle, for a with block or .remove(), of make_transformer(old)(lines), which changes the generated lines."""
        old = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(old)
        return _TransformerHandle(self._codegen, old)

    def process_inputs(self, *args):
        """The inputs of the graph from the arguments of the function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """The result of the function from the outputs of the graph."""
        return self._codegen.process_outputs(out)

    def python_code(self, root_module, *, verbose=False, **_):
        """The code of the function `forward`, and the globals that it needs; root_module is the name of the module in it."""
        namespace = Namespace()
        renamed = {}
        for node in self.nodes:
            renamed[node] = node._repr_fn
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, namespace, verbose)
        finally:
            for node, previous in renamed.items():
                node._repr_fn = previous

    def __str__(self):
        lines, returns = [], [""]
        for node in self.nodes:
            lines.append(node.format_node([], returns))
        return f"graph(){returns[0]}:" + "".join(f"\n    {line}" for line in lines)

    def print_tabular(self):
        """Prints the nodes as a table."""
        header = ["opcode", "name", "target", "args", "kwargs"]
        rows = [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        for row in [header, ["-" * w for w in widths], *rows]:
            print("  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip())


class _TransformerHandle:
    """Restores the transformer of lines that was there before."""

    def __init__(self, codegen, old):
        self.codegen, self.old = codegen, old

    def remove(self):
        self.codegen._body_transformer = self.old

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _has_attribute(module, path):
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
