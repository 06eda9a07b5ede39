"""Custom ops by name: strata.ops.<namespace>.<name>(...); see strata.library."""

from . import _C
from .library._custom_op import namespaces, publish

__all__ = ["load_library"]

loaded_libraries = set()


def load_library(path):
    """Loads a shared library of ops in C++, a STRATA_LIBRARY block, and makes them available here."""
    for name, op in _C._load_library(path).items():
        publish(name, op)
    loaded_libraries.add(str(path))


def __getattr__(name):
    if name in namespaces:
        return namespaces[name]
    known = ", ".join(sorted(namespaces)) or "none"
    raise AttributeError(f"strata.ops has no namespace {name!r}; there are {known}")
