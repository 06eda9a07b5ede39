"""The virtual GPU: runs the very kernels of strata.cuda on any machine, and counts what they do."""

import sys

from . import _C
from ._devices import fill

fill(sys.modules[__name__], "vgpu")


def counters():
    """What the launches since the last call did: a dict each, with the kernel's name, instructions and memory accesses."""
    if _C._device_is_initialized("vgpu"):
        _C._device_synchronize("vgpu")
    return _C._vgpu_counters()


sys.modules[__name__].__all__.append("counters")
