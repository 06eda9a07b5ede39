"""Passes that make a module for inference faster: batch norms folded into the layer before, dropout removed."""

import copy

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node


def _parent_name(target):
    """('a.b', 'c') of 'a.b.c'."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern, node, modules):
    """Whether a node's first input and the node itself call modules of exactly these types."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    for expected, current in zip(pattern, (node.args[0], node), strict=True):
        if (
            current.op != "call_module"
            or current.target not in modules
            or type(modules[current.target]) is not expected
        ):
            return False
    return True


def replace_node_module(node, modules, new_module):
    """Puts another module in the place of the one that a node calls."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


_PATTERNS = [
    (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
    (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
    (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
    (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
]


def fuse(model, inplace=False, no_trace=False):
    """A copy of a module in eval mode with each batch norm folded into the convolution or linear layer before it."""
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for first, second, fold in _PATTERNS:
        for node in traced.graph.nodes:
            if not matches_module_pattern((first, second), node, modules) or len(node.args[0].users) > 1:
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fold(layer, norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    return GraphModule(traced, traced.graph, type(traced).__name__)


def remove_dropout(model):
    """The module without its dropout layers."""
    traced = symbolic_trace(model)

    class DropoutRemover(Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(traced).transform()
