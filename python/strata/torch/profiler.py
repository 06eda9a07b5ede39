"""PyTorch's profiler over strata.tracing(): profile, schedule, record_function, key_averages, export_chrome_trace."""

import enum
import os
import time

from .. import _C
from ..tracing import record_function, tracing
from .profiler_tables import EventList, averages

__all__ = [
    "EventList",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


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


class profile:
    """Records a with block, or the steps that a schedule chooses; on_trace_ready is called after each recording."""

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        with_modules=True,
        profile_memory=False,
        with_flops=False,
        **options,
    ):
        self._shown = {"memory": profile_memory, "flops": with_flops}
        self._on_ready, self._schedule, self._modules = on_trace_ready, schedule, with_modules
        self._running, self._last = None, None
        self.step_num = 0

    def _action(self):
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    def _begin(self):
        self._running = tracing(modules=self._modules, holders=self._shown["memory"]).__enter__()

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
        """Number of calls and times of each op, backward steps and named blocks; also by the shapes of their inputs, or by the line
        of the program."""
        events = self._last.events if self._last is not None else []
        return averages(events, group_by_input_shape, group_by_stack_n, **self._shown)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes the lines of the program with their ops and a time in microseconds, for flame graphs."""
        if metric not in ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
            raise ValueError(
                f"export_stacks: metric is {metric!r}, expected self_cpu_time_total or self_cuda_time_total"
            )
        with open(path, "w") as f:
            for a in self.key_averages(group_by_stack_n=1):
                if a.stack and (value := int(getattr(a, metric))) > 0:
                    f.write(f"{a.stack[0].replace(' ', '_').replace(';', ',')};{a.key} {value}\n")

    def export_memory_timeline(self, path, device=None):
        """Writes who held memory, with profile_memory=True: a page if the name ends in .html, otherwise the bytes over time as JSON."""
        if not self._shown["memory"] or self._last is None:
            raise RuntimeError("export_memory_timeline: needs a recording of profile(profile_memory=True)")
        holders = self._last.holders()
        if os.fspath(path).endswith(".html"):
            return holders.save(path)
        import json

        times, held = zip(*holders.points, strict=True) if holders.points else ((), ())
        with open(path, "w") as f:
            json.dump([list(times), list(held)], f)

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


class emit_nvtx(tracing):
    """Sends the names of calls and ops to NVIDIA's profilers, as ranges, in a with block."""

    def __init__(self, enabled=True, record_shapes=False):
        super().__init__(nvtx=True)
        self._enabled = enabled

    def __enter__(self):
        return super().__enter__() if self._enabled else self

    def __exit__(self, *error):
        if self._enabled:
            super().__exit__(*error)


def kineto_available():
    """False: the recorder is strata.tracing()."""
    return False


def supported_activities():
    """What can be recorded."""
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if _C._device_count("cuda") else [])}
