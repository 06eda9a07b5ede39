"""Custom ops by name: strata.ops.<namespace>.<name>(...); see strata.library."""

import os

from . import _C
from .library._custom_op import BUILT_IN, Namespace, namespaces, publish

__all__ = ["load_library"]

loaded_libraries = set()


def _is_built_in(path):
    """Whether a file is the extension `_C` of a package whose ops Strata has itself: torchvision/_C.so."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.basename(folder) in BUILT_IN and name.startswith("_C") and os.path.exists(path)


def load_library(path):
    """Loads a shared library of ops in C++, a STRATA_LIBRARY block, and makes them available here.

    The extension of a package whose ops Strata has itself (torchvision) is built for PyTorch, and not needed.
    """
    if _is_built_in(path):
        return
    for name, op in _C._load_library(path).items():
        publish(name, op)
    loaded_libraries.add(str(path))


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'strata.ops' has no attribute {name!r}")
    if name in BUILT_IN and name not in namespaces:
        BUILT_IN[name]()
    if name == "higher_order" and name not in namespaces:
        from .torch._higher_order_ops import HigherOrder

        namespaces[name] = HigherOrder()
    if name == "aten" and name not in namespaces:
        from .torch.aten import Aten

        namespaces[name] = Aten(name)
    # Any other name is a namespace, empty until an op is defined in it: programs ask it what it has.
    return namespaces.setdefault(name, Namespace(name))
