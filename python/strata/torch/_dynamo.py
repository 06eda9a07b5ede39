"""torch._dynamo: the marks that libraries put on functions; nothing is compiled."""

import sys
import types

from ..nn.module import Module
from .compiler import allow_in_graph, assume_constant_result, disable, is_compiling, reset, substitute_in_graph

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "reset",
    "substitute_in_graph",
]

config = types.SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False)


def graph_break(msg=""):
    """Nothing to break."""


class OptimizedModule(Module):
    """The type of compiled modules in PyTorch; compile() returns modules of their own type here."""


def mark_dynamic(t, index, **_):
    """Nothing to mark."""


mark_static = mark_static_address = maybe_mark_dynamic = mark_unbacked = mark_dynamic


def is_compile_supported(device_type):
    """False: nothing is compiled."""
    return False


utils = eval_frame = sys.modules[__name__]  # files of PyTorch whose names are here
