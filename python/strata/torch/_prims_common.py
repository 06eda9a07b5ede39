"""torch._prims_common: questions about layouts that packages ask. The rest raises when it is used."""

from ._missing import missing


def is_contiguous(a, false_if_dde=False):
    """Whether the elements are in row-major order without gaps."""
    return a.is_contiguous()


def is_contiguous_or_false(a):
    """The same; sizes are always known here."""
    return a.is_contiguous()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch._prims_common' has no attribute '{name}'")
    return missing(f"torch._prims_common.{name}")
