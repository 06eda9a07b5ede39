"""Records what a program does, on all layers: calls from Python, ops, kernels, the driver, the device."""

from . import _C


class tracing:
    """Records a with block: `with strata.tracing() as t: ...; print(t.table())`; `t.save("trace.html")` or `.json`.

    `table(by)` sums up by "op", "kernel", "line" (of the program), "layer", "module", "device" and others; printing shows
    the spans in order. Buffers take at most `memory` bytes; later spans are counted in `dropped`. With `modules`, calls of
    modules are spans too, with `nvtx` spans are also ranges that NVIDIA's profilers show, with `holders` memory that is given back is recorded for
    `holders()`, with `counters` what the virtual GPU counts for `counters()`. One recording at a time per process.
    """

    def __init__(self, path=None, *, memory=256 << 20, modules=True, nvtx=False, holders=False, counters=False):
        self._path, self._memory, self._modules, self._nvtx, self._holders = path, memory, modules, nvtx, holders
        self._counts = [] if counters else None
        self._trace, self._events, self._hooks = None, None, ()

    def __enter__(self):
        if self._counts is not None:
            _counted()  # those of before
        if self._nvtx:
            _C._trace_ranges(True)
        try:
            _C._trace_start(self._memory)
        except BaseException:
            if self._nvtx and not _C._trace_is_on():
                _C._trace_ranges(False)
            raise
        if self._holders:
            _C._trace_memory(True)
        if self._modules:
            self._hooks = _watch_modules()
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()
        self._trace, self._events, self._hooks = _C._trace_stop(), None, ()
        if self._counts is not None:
            self._counts = _counted()
        if self._nvtx:
            _C._trace_ranges(False)
        if self._holders:
            _C._trace_memory(False)
        if self._path is not None:
            self.save(self._path)

    def _recorded(self):
        if self._trace is None:
            raise RuntimeError("tracing: nothing is recorded yet; the with block has not ended")
        return self._trace

    @property
    def events(self):
        """All spans in the order of their ends, as dicts: layer, name, facts, id, begin_ns, end_ns, thread, detail."""
        if self._events is None:
            self._events = _C._trace_events(self._recorded())
        return self._events

    dropped = property(lambda self: _C._trace_count(self._recorded())[1], doc="Spans for which there was no memory.")

    def __len__(self):
        return _C._trace_count(self._recorded())[0]

    def counters(self):
        """What the virtual GPU counted, as vgpu.counters() but with the `id` of each launch, its `line` and its `module`, where they are
        known. Record with counters=True, which resets the counters."""
        if self._counts is None:
            raise RuntimeError("tracing: counters() needs a recording with tracing(counters=True)")
        events, launches = self.events, []
        for _, i in sorted((e["begin_ns"], i) for i, e in enumerate(self.events) if e["name"] == "launch"):
            if events[i]["layer"] == "runtime":
                launches.append(i)
        known = [dict(events[i]["facts"]).get("kernel") for i in launches] == [c["kernel"] for c in self._counts]
        return [
            {**count, **(place_of(events, launches[n]) if known else {"id": 0, "line": "", "module": ""})}
            for n, count in enumerate(self._counts)
        ]

    def holders(self):
        """Who held what memory at the peak of the recording, and the timeline: see Holders. Record with holders=True."""
        from ._memory_timeline import Holders

        if not self._holders:
            raise RuntimeError("tracing: holders() needs a recording with tracing(holders=True)")
        return Holders(self.events)

    def work(self):
        """The kernels in order, as dicts: module, op, kernel, host_ns, device_ns, bytes, flops, launches, and those rejected, with reasons.
        Kernels of backward steps have the module of their forward op."""
        return _C._trace_work(self._recorded())

    def rows(self, by="op"):
        """The rows of a table as dicts: key, calls, total_ns, self_ns, device_ns, bytes, flops; the longest first."""
        return _C._trace_rows(self._recorded(), by)

    def table(self, by="op", limit=20, *, peak=None):
        """A table as text: calls, time with and without the spans inside, time on the device, bytes and operations per second. `peak`, a
        device such as "cpu", measures a large copy and a large product there, and adds how near each row comes to them."""
        peaks = (_C._measured_rate(str(peak), 1 << 27), _C._measured_rate(str(peak), 0)) if peak is not None else ()
        return _C._trace_text(self._recorded(), "table", by, limit, *peaks).rstrip("\n")

    def tree(self, limit=200):
        """The spans in order, indented, with their facts and ids."""
        return _C._trace_text(self._recorded(), "tree", "op", limit).rstrip("\n")

    def save(self, path):
        """Writes a file by the end of its name: .json (for Perfetto), .html, .svg (flame graph) or .txt."""
        _C._trace_save(self._recorded(), path)

    def __str__(self):
        return self.tree()

    def _repr_html_(self):
        from html import escape

        flame = _C._trace_text(self._recorded(), "svg", "op", 0)
        return f"<pre>{escape(self.table())}</pre><div style='overflow-x:auto'>{flame}</div>"


def _counted():
    """The counters since the last call."""
    from . import vgpu

    return vgpu.counters() if vgpu.is_initialized() else []


def place_of(events, i):
    """The id of a span, and the line and the module that it is in."""
    place = {"id": events[i]["id"], "line": "", "module": ""}
    while i >= 0:
        e = events[i]
        facts = dict(e["facts"]) if e["layer"] == "python" else {}
        if "file" in facts and not place["line"]:
            place["line"] = f"{facts['file']}:{facts['line']} in {facts['function']}"
        if e["layer"] == "module" and not place["module"]:
            place["module"] = e["name"]
        i = e["parent"]
    return place


def _watch_modules():
    """Global hooks that open a span when a module is called and close it when the call ends, with an error too."""
    from .nn.modules import module as hooks

    open_spans = []

    def begin(module, _):
        open_spans.append(_C._trace_open("module", type(module).__name__))

    def end(*_):
        if open_spans:
            _C._trace_close(open_spans.pop())

    return (
        hooks.register_module_forward_pre_hook(begin),
        hooks.register_module_forward_hook(end, always_call=True),
    )


class record_function:
    """Names a block in a recording: `with strata.profiler.record_function("step"): ...`, or a decorator."""

    def __init__(self, name, args=None):
        self.name, self._spans = name, []

    def __enter__(self):
        self._spans.append(_C._trace_open("user", str(self.name)))
        return self

    def __exit__(self, *_):
        _C._trace_close(self._spans.pop())

    def __call__(self, f):
        import functools

        @functools.wraps(f)
        def named(*args, **kwargs):
            with record_function(self.name):
                return f(*args, **kwargs)

        return named
