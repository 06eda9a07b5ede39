"""Utilities."""

from . import checkpoint

__all__ = ["checkpoint", "data"]


_LATER = ("_pytree", "benchmark", "cpp_extension", "data", "dlpack", "model_zoo", "tensorboard")


def __getattr__(name):
    if name in _LATER:  # data imports multiprocessing, so only on first use
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'strata.utils' has no attribute {name!r}")
