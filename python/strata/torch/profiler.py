"""PyTorch's profiler over strata.tracing(): profile, schedule, record_function, key_averages, export_chrome_trace."""

import enum
import os
import time

from .. import _C
from .._no_effect import NoEffect
from ..tracing import record_function, tracing

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "tensorboard_trace_handler"]


class ProfilerActivity(enum.Enum):
    """What to record; ops and kernels are recorded on every device."""

    CPU = 0
    CUDA = 1
    XPU = 2


class ProfilerAction(enum.Enum):
    """What a step does: see schedule()."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function of the step: wait, warm up, record, over and over."""

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        round_, step = divmod(step - skip_first, wait + warmup + active)
        if repeat and round_ >= repeat or step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        last = step == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """Writes each trace into a folder as JSON."""

    def write(profiler):
        os.makedirs(dir_name, exist_ok=True)
        profiler.export_chrome_trace(
            os.path.join(dir_name, f"{worker_name or os.getpid()}.{time.time_ns()}.pt.trace.json")
        )

    return write


class _Average:
    """The calls of one op: their number, times in microseconds, and bytes."""

    def __init__(self, row):
        self.key, self.count = row["key"], row["calls"]
        self.cpu_time_total, self.self_cpu_time_total = row["total_ns"] / 1e3, row["self_ns"] / 1e3
        self.device_time_total = self.self_device_time_total = row["device_ns"] / 1e3
        self.bytes = row["bytes"]

    cpu_time = property(lambda self: self.cpu_time_total / max(self.count, 1))
    device_time = property(lambda self: self.device_time_total / max(self.count, 1))
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)


_SORTS = {
    "cpu_time_total": lambda a: -a.cpu_time_total,
    "self_cpu_time_total": lambda a: -a.self_cpu_time_total,
    "cpu_time": lambda a: -a.cpu_time,
    "cuda_time_total": lambda a: -a.device_time_total,
    "self_cuda_time_total": lambda a: -a.device_time_total,
    "device_time_total": lambda a: -a.device_time_total,
    "self_device_time_total": lambda a: -a.device_time_total,
    "cuda_time": lambda a: -a.device_time,
    "device_time": lambda a: -a.device_time,
    "count": lambda a: -a.count,
}


class EventList(list):
    """Averages by op; table() is text."""

    def table(self, sort_by=None, row_limit=100, **_):
        """The ops that took longest, as text."""
        if sort_by is not None and sort_by not in _SORTS:
            raise AttributeError(f"table: sort_by is {sort_by!r}, expected one of {', '.join(_SORTS)}")
        rows = sorted(self, key=_SORTS[sort_by or "cpu_time_total"])[: row_limit if row_limit > 0 else None]
        device = any(a.device_time_total for a in self)
        head = f"{'Name':40}  {'Self CPU':>12}  {'CPU total':>12}  {'CPU time avg':>12}"
        lines = [head + (f"  {'Device total':>12}" if device else "") + f"  {'# of Calls':>10}"]
        for a in rows:
            line = f"{a.key[:40]:40}  {a.self_cpu_time_total:10.3f}us  {a.cpu_time_total:10.3f}us  {a.cpu_time:10.3f}us"
            lines.append(line + (f"  {a.device_time_total:10.3f}us" if device else "") + f"  {a.count:10}")
        lines.append(f"Self CPU time total: {sum(a.self_cpu_time_total for a in self) / 1e3:.3f}ms")
        if device:
            lines.append(f"Device time total: {sum(a.device_time_total for a in self) / 1e3:.3f}ms")
        return "\n".join(lines)

    def total_average(self):
        """All of them as one."""
        names = ("total_ns", "self_ns", "device_ns")
        fields = ("cpu_time_total", "self_cpu_time_total", "device_time_total")
        sums = {n: int(1e3 * sum(getattr(a, f) for a in self)) for n, f in zip(names, fields, strict=True)}
        return _Average(
            {"key": "Total", "calls": sum(a.count for a in self), "bytes": sum(a.bytes for a in self), **sums}
        )

    def __str__(self):
        return self.table()


class profile:
    """Records a with block, or the steps that a schedule chooses; on_trace_ready is called after each recording."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, with_modules=True, **options):
        self._on_ready, self._schedule, self._modules = on_trace_ready, schedule, with_modules
        self._running, self._last = None, None
        self.step_num = 0

    def _action(self):
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    def _begin(self):
        self._running = tracing(modules=self._modules).__enter__()

    def _end(self):
        if self._running is None:
            return
        self._running.__exit__(None, None, None)
        self._last, self._running = self._running, None
        if self._on_ready:
            self._on_ready(self)

    def _follow(self):
        recording = self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self._running is None:
            self._begin()
        elif not recording:
            self._end()

    def start(self):
        """Starts recording, if the schedule wants the first step."""
        self._follow()

    def stop(self):
        """Ends the recording."""
        self._end()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def step(self):
        """Marks the end of a step."""
        saves = self._schedule is not None and self._action() is ProfilerAction.RECORD_AND_SAVE
        if saves:
            self._end()
        self.step_num += 1
        self._follow()

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, **_):
        """Number of calls and times of each op, backward steps and named blocks."""
        if self._last is None:
            return EventList()
        rows = [row for by in ("op", "autograd", "user") for row in self._last.rows(by)]
        return EventList(_Average(row) for row in rows)

    def events(self):
        """All spans, as dicts."""
        return list(self._last.events) if self._last is not None else []

    def export_chrome_trace(self, path):
        """Writes the spans in the Trace Event format, which Perfetto opens; gzipped if the name ends in .gz."""
        if self._last is None:
            raise RuntimeError("export_chrome_trace: nothing was recorded; the with block has not ended")
        path = os.fspath(path)
        if path.endswith(".json"):
            return self._last.save(path)
        import gzip
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "trace.json")
            self._last.save(file)
            with open(file, "rb") as f:
                text = f.read()
        with gzip.open(path, "wb") if path.endswith(".gz") else open(path, "wb") as f:
            f.write(text)

    def __str__(self):
        return str(self.key_averages())


class emit_nvtx(NoEffect):
    """Accepted: names of ops are not sent to NVIDIA's profilers."""


def kineto_available():
    """False: the recorder is strata.tracing()."""
    return False


def supported_activities():
    """What can be recorded."""
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if _C._device_count("cuda") else [])}
