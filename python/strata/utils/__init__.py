"""Utilities."""

from . import checkpoint

__all__ = ["checkpoint", "data"]


def __getattr__(name):
    if name == "data":  # imports multiprocessing, so only on first use
        import importlib

        return importlib.import_module(".data", __name__)
    raise AttributeError(f"module 'strata.utils' has no attribute {name!r}")
