"""Shared parts of strata.cuda and strata.vgpu: devices, memory, streams, events, graphs. Names and meanings are PyTorch's."""

import types

from . import _C


def _index(kind, device):
    """The number of a device given as None (the current one), a number, a name or a device."""
    if device is None:
        return _C._device_current(kind)
    if isinstance(device, int):
        return device
    device = _C.device(device)
    if device.type != kind:
        raise ValueError(f"expected a {kind} device, but got: {device}")
    return _C._device_current(kind) if device.index is None else device.index


class _Stream:
    """A queue of work: launches in it run in order, concurrently with other streams."""

    kind = ""

    def __init__(self, device=None, priority=0, *, _handle=None):
        self._handle = _handle or _C._stream_create(self.kind, _index(self.kind, device), priority)
        index, self.cuda_stream = _C._stream_info(self._handle)
        self.device = _C.device(self.kind, index)

    def synchronize(self):
        """Waits until its work is done."""
        _C._stream_synchronize(self._handle)

    def query(self):
        """Whether its work is done."""
        return _C._stream_query(self._handle)

    def wait_event(self, event):
        """Later launches wait for the event."""
        _C._event_wait(event._handle, self._handle)

    def wait_stream(self, stream):
        """Later launches wait for the work of another stream."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Records an event at this point of the queue."""
        if event is None:
            event = _EVENTS[self.kind](device=self.device)
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, _Stream) and (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self):
        return hash((self.device, self.cuda_stream))

    def __repr__(self):
        return f"<strata.{self.kind}.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self):
        self._outer = type(self)(_handle=_C._stream_current(self.kind, self.device.index))
        _C._stream_set(self._handle)
        return self

    def __exit__(self, *_):
        _C._stream_set(self._outer._handle)


class _Event:
    """A point in a stream, for waiting and timing."""

    kind = ""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, *, device=None):
        if interprocess:
            raise NotImplementedError("events that other processes can wait for are not in this version")
        self._handle = _C._event_create(self.kind, _index(self.kind, device), enable_timing)

    def record(self, stream=None):
        """Records the event at the end of a stream's work, the current stream's by default."""
        handle = stream._handle if stream is not None else _C._stream_current(self.kind)
        _C._event_record(self._handle, handle)

    def wait(self, stream=None):
        """Later work of the stream waits for the event."""
        _C._event_wait(self._handle, stream._handle if stream is not None else _C._stream_current(self.kind))

    def query(self):
        """Whether all work before the event is done."""
        return _C._event_query(self._handle)

    def synchronize(self):
        """Waits until all work before the event is done."""
        _C._event_synchronize(self._handle)

    def elapsed_time(self, end_event):
        """Milliseconds from this event to another; both must have completed."""
        return _C._event_elapsed(self._handle, end_event._handle)


class _Graph:
    """Work that is recorded once and replayed with one call, on the same memory."""

    kind = ""

    def __init__(self):
        self._graph = None

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Starts recording the work of the current stream, which must not be the default one."""
        self._graph = _C._graph_begin(_C._stream_current(self.kind))

    def capture_end(self):
        """Ends the recording."""
        _C._graph_end(self._graph)

    def replay(self):
        """Runs the recorded work in the current stream."""
        if self._graph is None:
            raise RuntimeError("replay: the graph has not been captured yet")
        _C._graph_replay(self._graph, _C._stream_current(self.kind))

    def update(self, other):
        """From now on replay() runs the work of another graph, on its memory, without instantiating it again. Both must hold
        the same kinds of nodes in the same order; otherwise the error names the first difference and nothing changes."""
        if self._graph is None or other._graph is None:
            raise RuntimeError(
                f"update: {'this' if self._graph is None else 'the other'} graph has not been captured yet"
            )
        _C._graph_update(self._graph, other._graph)

    def reset(self):
        """Discards the recording and frees its memory."""
        self._graph = None


def _for_each_kind(base, name):
    return {kind: type(name, (base,), {"kind": kind, "__doc__": base.__doc__}) for kind in ("cuda", "vgpu")}


_STREAMS, _EVENTS, _GRAPHS = (
    _for_each_kind(_Stream, "Stream"),
    _for_each_kind(_Event, "Event"),
    _for_each_kind(_Graph, "CUDAGraph"),
)


class _NoStream:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        pass


class _Capture:
    """with graph(g): the work inside is recorded into g and not run."""

    def __init__(self, devices, cuda_graph, pool=None, stream=None):
        self._devices, self._graph, self._stream = devices, cuda_graph, stream

    def __enter__(self):
        self._devices.synchronize()
        self._inside = self._stream or self._devices.Stream()
        self._inside.__enter__()
        try:
            self._graph.capture_begin()
        except BaseException:
            self._inside.__exit__()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._graph.capture_end()
            else:
                self._graph.reset()  # discard the incomplete recording; the error is raised
        finally:
            self._inside.__exit__()


class _OnDevice:
    """with device(1): names without a number refer to device 1."""

    def __init__(self, kind, device):
        self._kind, self._device = kind, device

    def __enter__(self):
        self._outer = None
        if self._device is not None and (index := _index(self._kind, self._device)) >= 0:
            self._outer = _C._device_current(self._kind)
            _C._device_set(self._kind, index)

    def __exit__(self, *_):
        if self._outer is not None:
            _C._device_set(self._kind, self._outer)


class _Memory:
    """The functions of torch.cuda.memory: memory statistics and history."""

    _FUNCTIONS = (
        "empty_cache",
        "max_memory_allocated",
        "max_memory_reserved",
        "mem_get_info",
        "memory_allocated",
        "memory_reserved",
        "memory_snapshot",
        "memory_stats",
        "memory_summary",
        "reset_peak_memory_stats",
        "set_per_process_memory_fraction",
    )

    def __init__(self, devices):
        for name in self._FUNCTIONS:
            setattr(self, name, getattr(devices, name))

    def _record_memory_history(self, enabled="all"):
        """From now on every tensor on a device remembers the Python line that created it: memory_snapshot() and the error when
        memory runs out then name it. None or False turns it off; while off it costs nothing."""
        if enabled not in (None, False, True, "all", "state"):
            raise ValueError(
                f"_record_memory_history: enabled must be None, False, True, 'state' or 'all', got {enabled!r}"
            )
        _C._device_record_history(bool(enabled))

    def _set_allocator_settings(self, env):
        """Settings as STRATA_CUDA_ALLOC_CONF has them, "expandable_segments:True", for memory allocated from now on."""
        _C._device_configure_memory(env)


class Devices:
    """The functions of strata.cuda or strata.vgpu, for one kind of device."""

    def __init__(self, kind):
        self.kind = kind
        self.Stream = _STREAMS[kind]
        self.Event = _EVENTS[kind]
        self.CUDAGraph = _GRAPHS[kind]
        self.memory = _Memory(self)

    def is_available(self):
        """Whether there is such a device; why_not() gives the reason if not."""
        return _C._device_count(self.kind) > 0

    def why_not(self):
        """Why there is no such device, and what to do; None if there is one."""
        return _C._device_why_not(self.kind)

    def device_count(self):
        """The number of such devices."""
        return _C._device_count(self.kind)

    def is_initialized(self):
        """Whether a device has been used in this process."""
        return _C._device_is_initialized(self.kind)

    def init(self):
        """Opens the devices now; the first use does so too."""
        _C._device_properties(self.kind, 0)

    def current_device(self):
        """The number of the current device, which names without a number refer to."""
        return _C._device_current(self.kind)

    def set_device(self, device):
        """Sets it, for this thread."""
        index = _index(self.kind, device)
        if index >= 0:
            _C._device_set(self.kind, index)

    def device(self, device=None):
        """A context in which names without a number refer to this device."""
        return _OnDevice(self.kind, device)

    def get_device_properties(self, device=None):
        """Name, memory, architecture and limits of a device."""
        return types.SimpleNamespace(**_C._device_properties(self.kind, _index(self.kind, device)))

    def get_device_name(self, device=None):
        """The name of a device."""
        return self.get_device_properties(device).name

    def get_device_capability(self, device=None):
        """The architecture of a device as (major, minor)."""
        p = self.get_device_properties(device)
        return p.major, p.minor

    def can_device_access_peer(self, device, peer_device):
        """Whether a device can access the memory of another directly."""
        return _C._device_can_access_peer(self.kind, _index(self.kind, device), _index(self.kind, peer_device))

    def synchronize(self, device=None):
        """Waits until all work of a device is done."""
        _C._device_synchronize(self.kind, _index(self.kind, device))

    def current_stream(self, device=None):
        """The stream that ops of this thread run in."""
        return self.Stream(_handle=_C._stream_current(self.kind, _index(self.kind, device)))

    def default_stream(self, device=None):
        """The default stream."""
        return self.Stream(_handle=_C._stream_default(self.kind, _index(self.kind, device)))

    def set_stream(self, stream):
        """Sets the stream that ops of this thread run in."""
        if stream is not None:
            _C._stream_set(stream._handle)

    def stream(self, stream):
        """A context in which ops run in this stream; None changes nothing."""
        return _NoStream() if stream is None else stream

    def graph(self, cuda_graph, pool=None, stream=None):
        """A context that records the work inside into a CUDAGraph."""
        return _Capture(self, cuda_graph, pool, stream)

    def is_current_stream_capturing(self):
        """Whether the current stream is recording a graph."""
        return self.is_initialized() and _C._is_capturing(_C.device(self.kind, self.current_device()))

    def _stats(self, device):
        return _C._device_memory_stats(self.kind, _index(self.kind, device)) if self.is_initialized() else {}

    def memory_allocated(self, device=None):
        """Bytes in tensors."""
        return self._stats(device).get("allocated", 0)

    def max_memory_allocated(self, device=None):
        """The most bytes in tensors so far."""
        return self._stats(device).get("peak_allocated", 0)

    def memory_reserved(self, device=None):
        """Bytes taken from the device: in tensors, and kept for the next ones."""
        return self._stats(device).get("reserved", 0)

    def max_memory_reserved(self, device=None):
        """The most bytes taken from the device so far."""
        return self._stats(device).get("peak_reserved", 0)

    def memory_stats(self, device=None):
        """All numbers of the allocator."""
        s = self._stats(device)
        names = {
            "allocated": "allocated_bytes.all.current",
            "peak_allocated": "allocated_bytes.all.peak",
            "reserved": "reserved_bytes.all.current",
            "peak_reserved": "reserved_bytes.all.peak",
            "active": "active_bytes.all.current",
            "allocations": "allocation.all.allocated",
            "segments": "segment.all.current",
            "retries": "num_alloc_retries",
            "failures": "num_ooms",
        }
        return {long: s.get(short, 0) for short, long in names.items()}

    def memory_snapshot(self, device=None):
        """All blocks of memory: address, size, the op and (see _record_memory_history) the line that allocated it."""
        return _C._device_memory_snapshot(self.kind, _index(self.kind, device)) if self.is_initialized() else []

    def memory_summary(self, device=None, abbreviated=False):
        """The allocator's numbers as a table."""
        rows = [(name, f"{value:,}") for name, value in self.memory_stats(device).items()]
        width = max(len(name) for name, _ in rows)
        title = f"memory of {self.kind}:{_index(self.kind, device)}"
        return "\n".join([title, *(f"  {name:<{width}}  {value:>20}" for name, value in rows)])

    def reset_peak_memory_stats(self, device=None):
        """Resets the peaks to the current values."""
        _C._device_reset_peak(self.kind, _index(self.kind, device))

    def empty_cache(self):
        """Returns unused memory to the devices and to the system."""
        _C._device_empty_cache(self.kind)

    def mem_get_info(self, device=None):
        """Free and total bytes of a device."""
        return _C._device_mem_get_info(self.kind, _index(self.kind, device))

    def set_per_process_memory_fraction(self, fraction, device=None):
        """Limits the device memory of this process."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
        total = self.get_device_properties(device).total_memory
        _C._device_set_limit(self.kind, _index(self.kind, device), max(1, int(total * fraction)) if fraction < 1 else 0)

    def manual_seed(self, seed):
        """Seeds the generator, which is one for all devices: element i of a draw is the same everywhere."""
        _C.manual_seed(seed)
