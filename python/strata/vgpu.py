"""The virtual GPU: runs the very kernels of strata.cuda on any machine, and counts what they do."""

import sys

from . import _C
from ._devices import fill

fill(sys.modules[__name__], "vgpu")


def counters():
    """What the launches since the last call did: a dict each, with the kernel's name, instructions and memory accesses."""
    synchronize()  # noqa: F821: put here by fill()
    return _C._vgpu_counters()


__all__ += ["counters"]  # noqa: F821
