"""torch.fx: the mark of functions that tracing leaves alone. Tracing itself is not in this version and raises when called."""

from ._missing import missing

__path__ = []  # torch.fx.node and others are found as stand-ins


def wrap(fn_or_name):
    """The function itself: nothing is traced."""
    return fn_or_name


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.fx' has no attribute {name!r}")
    return missing(f"torch.fx.{name}")
