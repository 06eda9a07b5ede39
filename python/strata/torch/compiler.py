"""torch.compiler: nothing is compiled, so the marks of a program change nothing."""

from .functions import compile

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


class set_stance:
    """A setting without effect, as a call or a with block."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, fn):
        return fn
