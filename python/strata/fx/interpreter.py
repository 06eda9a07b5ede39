"""Interpreter: runs a graph node by node. Transformer: makes another graph that way."""

from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy


class Interpreter:
    """Runs the nodes of a module's graph. Subclasses override run_node() or the method of one kind of node."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module, self.submodules = module, dict(module.named_modules())
        self.graph = graph if graph is not None else module.graph
        self.env, self.args_iter = {}, iter(())
        self.name, self.garbage_collect_values, self.extra_traceback = "Interpreter", garbage_collect_values, True
        self.user_to_last_uses = {}
        if garbage_collect_values:
            seen = set()
            for user in reversed(self.graph.nodes):
                for node in user.all_input_nodes:
                    if node not in seen:
                        seen.add(node)
                        self.user_to_last_uses.setdefault(user, []).append(node)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """The module's result; initial_env has values of nodes that are not computed again."""
        self.env = dict(initial_env) if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as e:
                if self.extra_traceback:
                    text = f"While executing {node.format_node()}"
                    e.args = (f"{e.args[0]}\n\n{text}", *e.args[1:]) if e.args else (text,)
                raise
            for value in self.user_to_last_uses.get(node, []):
                del self.env[value]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list):
        """run() of a list of arguments, which is emptied."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n):
        """The value of a node: calls the method of its kind."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        """The next argument, or the default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target, args, kwargs):
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """The result of a function."""
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """The result of a method of the first argument."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        """The result of a child."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """The result."""
        return args[0]

    def fetch_attr(self, target):
        """An attribute by path."""
        found = self.module
        done = []
        for part in target.split("."):
            done.append(part)
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(done)}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n):
        """The values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Arguments with the values of nodes in their place."""

        def value(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Makes a new GraphModule: the methods return proxies, so overriding them changes the graph."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        from ._symbolic_trace import Tracer

        class TransformerTracer(Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph, self.tensor_attrs, self.root, self._tensor_paths = graph, {}, module, {}

            def is_leaf_module(self, m, module_qualified_name):
                return True

        self.tracer = TransformerTracer(self.new_graph)

    def placeholder(self, target, args, kwargs):
        """An input of the new graph."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target, args, kwargs):
        """An attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        """A call of a child in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        """A call of a function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target, args, kwargs):
        """A call of a method in the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self):
        """The new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(v):
                return v.node if isinstance(v, Proxy) else v

            old = next((n for n in reversed(self.module.graph.nodes) if n.op == "output"), None)
            made = self.new_graph.output(map_aggregate(result, strip), type_expr=old.type if old else None)
            if old is not None:
                made.meta = dict(old.meta)
        return _new_module(self.module, self.new_graph)


def _new_module(module, graph):
    return GraphModule(module, graph, type(module).__name__)


__all__ = ["Interpreter", "Node", "Transformer"]
