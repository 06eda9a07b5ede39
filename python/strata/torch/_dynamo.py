"""torch._dynamo: the marks that libraries put on functions; nothing is compiled."""

import types

from .compiler import allow_in_graph, disable, is_compiling, reset

__all__ = ["allow_in_graph", "config", "disable", "graph_break", "is_compiling", "reset"]

config = types.SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False)


def graph_break(msg=""):
    """Nothing to break."""


def mark_dynamic(t, index, **_):
    """Nothing to mark."""


mark_static = maybe_mark_dynamic = mark_dynamic
