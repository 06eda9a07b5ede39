"""split_module: a module whose children are the partitions of a graph."""

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg


class Partition:
    """The nodes of one child, and what goes in and out."""

    def __init__(self, name):
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names, self.inputs, self.outputs, self.dependencies, self.dependents = [], {}, {}, {}, {}
        self.graph, self.environment, self.targets = Graph(), {}, {}

    def __repr__(self):
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n "
            f"partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False, **_):
    """A GraphModule that calls one child `submod_<n>` per partition; split_callback(node) returns the partition of a node.

    qualname_map gets the new path of each attribute -> its path in m.
    """
    partitions, home = {}, {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        name = str(split_callback(node))
        partition = partitions.setdefault(name, Partition(name))
        partition.node_names.append(node.name)
        home[node] = partition
    for node in m.graph.nodes:
        for used in node.all_input_nodes:
            _connect(used, node, home)
    base, values = Graph(), {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            values[node] = base.node_copy(node, lambda n: values[n])
    attributes = _fill(m, home, base, values)
    parts = {}
    for name in _order(partitions):
        partition = partitions[name]
        _finish(partition)
        child = GraphModule(_attributes(m, partition), partition.graph)
        for inner, outer in partition.targets.items():
            if qualname_map is not None:
                qualname_map[f"{partition.submod_name}.{inner}"] = outer
        parts[partition.submod_name] = child
        call = base.call_module(partition.submod_name, tuple(values[n] for n in partition.inputs))
        outputs = list(partition.outputs)
        for i, node in enumerate(outputs):
            values[node] = call if len(outputs) == 1 else base.call_function(_getitem(), (call, i), name=None)
    for node in m.graph.nodes:
        if node.op == "output":
            base.output(map_arg(node.args[0], lambda n: values[n]), node.type)
    parts.update(attributes)
    return GraphModule(parts, base)


def _getitem():
    import operator

    return operator.getitem


def _connect(used, user, home):
    source, target = home.get(used), home.get(user)
    if source is target or used.op == "get_attr" and target is not None:
        return
    if source is not None:
        source.outputs.setdefault(used)
        if target is not None:
            source.dependents.setdefault(target.name)
    if target is not None:
        target.inputs.setdefault(used)
        if source is not None:
            target.dependencies.setdefault(source.name)


def _fill(m, home, base, values):
    """Copies the nodes into the graphs of their partitions; returns attributes that the output itself uses."""
    attributes = {}
    for node in m.graph.nodes:
        if node.op == "get_attr":
            if any(user not in home for user in node.users):
                values[node] = base.node_copy(node, lambda n: values[n])
                attributes[node.target] = _fetch(m, node.target)
            continue
        partition = home.get(node)
        if partition is None:
            continue

        def local(used, partition=partition):
            if used in partition.environment:
                return partition.environment[used]
            if used.op == "get_attr":
                name = used.target.replace(".", "_")
                partition.targets[name] = used.target
                made = partition.graph.get_attr(name)
            else:
                made = partition.graph.placeholder(used.name, type_expr=used.type)
            partition.environment[used] = made
            return made

        for used in node.all_input_nodes:  # inputs come first
            if used in partition.inputs and used not in partition.environment:
                with partition.graph.inserting_before(_first_step(partition.graph)):
                    local(used)
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            partition.targets[target] = node.target
        args, kwargs = map_arg(node.args, local), map_arg(node.kwargs, local)
        made = partition.graph.create_node(node.op, target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        partition.environment[node] = made
    return attributes


def _first_step(graph):
    return next((n for n in graph.nodes if n.op != "placeholder"), None) or graph._root


def _order(partitions):
    """The partitions, each after those it depends on."""
    waiting, done = {n: set(p.dependencies) for n, p in partitions.items()}, []
    while waiting:
        ready = next((n for n, needs in waiting.items() if not needs), None)
        if ready is None:
            raise RuntimeError("cycle exists between partitions!")
        del waiting[ready]
        done.append(ready)
        for needs in waiting.values():
            needs.discard(ready)
    return done


def _finish(partition):
    # The call passes the inputs in the order of their placeholders.
    placed = [n for n in partition.graph.nodes if n.op == "placeholder"]
    origin = {made: used for used, made in partition.environment.items()}
    partition.inputs = {origin[n]: None for n in placed}
    results = tuple(partition.environment[n] for n in partition.outputs)
    partition.graph.output(results[0] if len(results) == 1 else results)


def _attributes(m, partition):
    return {inner: _fetch(m, outer) for inner, outer in partition.targets.items()}


def _fetch(m, target):
    for part in target.split("."):
        m = getattr(m, part)
    return m


__all__ = ["Node", "Partition", "split_module"]
