"""torch.compiler: nothing is compiled, so the marks of a program change nothing."""

from .._compile import compile
from .._no_effect import NoEffect

__all__ = ["allow_in_graph", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling"]


def is_compiling():
    """False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn=None, recursive=True, *, reason=None):
    """The function itself; also as a decorator with arguments."""
    return fn if fn is not None else (lambda f: f)


def allow_in_graph(fn):
    """The function itself."""
    return fn


assume_constant_result = substitute_in_graph = allow_in_graph


def reset():
    """Nothing to forget."""


def cudagraph_mark_step_begin():
    """Nothing to mark."""


def list_backends(exclude_tags=()):
    """No back ends."""
    return []


set_stance = NoEffect
