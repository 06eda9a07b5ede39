"""Small helpers over graphs."""

from ..graph import Graph
from ..node import map_arg


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Gives all nodes of one op and target another op and target, in a new graph."""
    graph, values = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = map_arg(node.args, lambda n: values[n])
            kwargs = map_arg(node.kwargs, lambda n: values[n])
            values[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            values[node] = graph.node_copy(node, lambda n: values[n])
    fx_module.graph = graph
