"""The virtual GPU: runs the kernels of strata.cuda on any machine, and counts what they do."""

from . import _C
from ._devices import Devices

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "can_device_access_peer",
    "counters",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "graph",
    "init",
    "is_available",
    "is_current_stream_capturing",
    "is_initialized",
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
    "ptx",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "stream",
    "summary",
    "synchronize",
    "why_not",
]

_devices = Devices("vgpu")
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


def counters():
    """Counters of the launches since the last call: a dict each, with the names of kernel and op, instructions, memory
    accesses, occupancy and an estimate of its time on a GPU of the device's profile."""
    if is_initialized():
        synchronize()
    return _C._vgpu_counters()


def ptx(kernel):
    """The PTX of a kernel by its name, as in counters(): it is interpreted by the virtual GPU and compiled by a driver. If
    several files have a kernel of that name, prefix the file: "convolution.forward_f32"."""
    return _C._vgpu_ptx(kernel)


def summary(most=12):
    """The counters aggregated by op and kernel, as a table: the `most` slowest kernels, by the estimate, and the total. Resets the
    counters, as counters() does."""
    if is_initialized():
        synchronize()
    return _C._vgpu_summary(most)
