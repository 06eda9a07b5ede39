"""torch.profiler: a with block that records ops with strata.tracing() and prints a table of their times."""

import enum
import os
import time

from .. import _C
from .._no_effect import NoEffect
from ..tracing import tracing

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
    """The calls of one op: their number and time in microseconds."""

    def __init__(self, key):
        self.key, self.count, self.cpu_time_total = key, 0, 0.0

    self_cpu_time_total = property(lambda self: self.cpu_time_total)
    cpu_time = property(lambda self: self.cpu_time_total / max(self.count, 1))


class _Averages(list):
    def table(self, sort_by=None, row_limit=100, **_):
        """The ops that took longest, as text."""
        rows = sorted(self, key=lambda a: -a.cpu_time_total)[: row_limit if row_limit > 0 else None]
        lines = [f"{'Name':40}  {'CPU total':>12}  {'CPU time avg':>12}  {'# of Calls':>10}"]
        lines += [f"{a.key[:40]:40}  {a.cpu_time_total:10.3f}us  {a.cpu_time:10.3f}us  {a.count:10}" for a in rows]
        return "\n".join(lines)

    __str__ = table


EventList = _Averages  # PyTorch's name


class profile:
    """Records the ops of a with block. The schedule of steps is accepted; everything is recorded."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, **options):
        self._on_ready, self._schedule, self._trace = on_trace_ready, schedule, tracing()
        self.step_num = 0

    def start(self):
        """Starts recording."""
        self._trace.__enter__()

    def stop(self):
        """Ends the recording."""
        self._trace.__exit__()
        if self._on_ready:
            self._on_ready(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def step(self):
        """Marks the end of a step."""
        self.step_num += 1

    def key_averages(self, *args, **kwargs):
        """Number of calls and time of each op."""
        found = {}
        for e in getattr(self._trace, "events", ()):
            if e["layer"] in ("dispatch", "op", "ops", "autograd"):
                average = found.setdefault(e["name"], _Average(e["name"]))
                average.count += 1
                average.cpu_time_total += (e["end_ns"] - e["begin_ns"]) / 1e3
        return _Averages(found.values())

    def events(self):
        """All spans, as dicts."""
        return list(getattr(self._trace, "events", ()))

    def export_chrome_trace(self, path):
        """Writes the spans in the Trace Event format, which Perfetto opens."""
        self._trace.save(path)

    def __str__(self):
        return str(self.key_averages())


class record_function:
    """A named block: its name is not recorded, its ops are."""

    def __init__(self, name, args=None):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, f):
        return f


class emit_nvtx(NoEffect):
    """Accepted: names of ops are not sent to NVIDIA's profilers."""


def kineto_available():
    """False: the recorder is strata.tracing()."""
    return False


def supported_activities():
    """What can be recorded."""
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if _C._device_count("cuda") else [])}
