"""NVIDIA GPUs. Importing this opens no driver; is_available() does, and why_not() gives the reason if it fails."""

import importlib

from .. import _C
from .._devices import Devices
from . import amp
from .inline import load_inline
from .kernels import CompileError, ElementwiseKernel, RawKernel, RawModule, elementwise
from .reductions import ReductionKernel, reduction

__all__ = [
    "CUDAGraph",
    "CompileError",
    "ElementwiseKernel",
    "Event",
    "OutOfMemoryError",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "Stream",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "elementwise",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "graph",
    "init",
    "is_available",
    "is_current_stream_capturing",
    "is_initialized",
    "libraries",
    "load_inline",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reduction",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "stream",
    "synchronize",
    "why_not",
]

OutOfMemoryError = _C.OutOfMemoryError
_devices = Devices("cuda")
CUDAGraph = _devices.CUDAGraph
Event = _devices.Event
Stream = _devices.Stream
can_device_access_peer = _devices.can_device_access_peer
current_device = _devices.current_device
current_stream = _devices.current_stream
default_stream = _devices.default_stream
device = _devices.device
device_count = _devices.device_count
empty_cache = _devices.empty_cache
get_device_capability = _devices.get_device_capability
get_device_name = _devices.get_device_name
get_device_properties = _devices.get_device_properties
graph = _devices.graph
init = _devices.init
is_available = _devices.is_available
is_current_stream_capturing = _devices.is_current_stream_capturing
is_initialized = _devices.is_initialized
manual_seed = _devices.manual_seed
max_memory_allocated = _devices.max_memory_allocated
max_memory_reserved = _devices.max_memory_reserved
mem_get_info = _devices.mem_get_info
memory = _devices.memory
memory_allocated = _devices.memory_allocated
memory_reserved = _devices.memory_reserved
memory_snapshot = _devices.memory_snapshot
memory_stats = _devices.memory_stats
memory_summary = _devices.memory_summary
reset_peak_memory_stats = _devices.reset_peak_memory_stats
set_device = _devices.set_device
set_per_process_memory_fraction = _devices.set_per_process_memory_fraction
set_stream = _devices.set_stream
stream = _devices.stream
synchronize = _devices.synchronize
why_not = _devices.why_not
manual_seed_all = _devices.manual_seed


def libraries():
    """NVIDIA's libraries as this process finds them: dicts with name, version, path, other_copies and why_not.

    Strata works without them. `why_not` is empty if a library can be used.
    """
    return _C._cuda_libraries()


def __getattr__(name):
    if name.endswith("Tensor"):  # the types of old programs
        from ..torch.legacy_types import CUDA

        if name in CUDA:
            return CUDA[name]
    # `from . import` would ask this function for the submodule first, again and again.
    older_names = importlib.import_module("._older_names", __name__)
    if name in older_names.NAMES:
        return getattr(older_names, name)
    raise AttributeError(f"module 'strata.cuda' has no attribute {name!r}")
