"""Times of small programs, as torch.utils.benchmark: Timer and Measurement."""

import dataclasses
import statistics
import time
import timeit as _timeit

from .. import _C

__all__ = ["Measurement", "Timer", "timer"]


def timer():
    """The time in seconds, after the work of GPUs has ended."""
    if _C._device_is_initialized("cuda"):
        from .. import cuda

        cuda.synchronize()
    return time.perf_counter()


_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclasses.dataclass
class Measurement:
    """The times of some blocks of runs, in seconds."""

    number_per_run: int
    raw_times: list
    stmt: str
    setup: str = "pass"
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    num_threads: int = 1

    @property
    def times(self):
        """Seconds per run, one for each block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self):
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def median(self):
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def iqr(self):
        """The distance between the quartiles of the times."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self):
        """The label, or the statement."""
        return ": ".join(filter(None, (self.label or self.stmt, self.sub_label)))

    def __repr__(self):
        scale, unit = next((u for u in _UNITS if self.median >= u[0]), _UNITS[-1])
        blocks = f"{len(self.raw_times)} measurement{'s' if len(self.raw_times) > 1 else ''}"
        runs = f"{self.number_per_run} runs {'per measurement, ' if len(self.raw_times) > 1 else ', '}"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        return f"{self.title}\n  {self.median / scale:.2f} {unit}\n  {blocks}, {runs}{threads}"


class Timer:
    """Times a statement: Timer("x + 1", globals={"x": x}).blocked_autorange(). Runs on one thread unless num_threads is given."""

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language="python",
    ):
        if str(language).lower() not in ("python", "language.python", "py"):
            raise NotImplementedError("benchmark.Timer: statements must be Python; use strata bench for C++")
        self._facts = dict(
            stmt=stmt, setup=setup, label=label, sub_label=sub_label, description=description, num_threads=num_threads
        )
        self._timer = _timeit.Timer(stmt, setup, timer, dict(globals or {}))

    def _run(self, number):
        before = _C.get_num_threads()
        _C.set_num_threads(self._facts["num_threads"])
        try:
            return self._timer.timeit(number)
        finally:
            _C.set_num_threads(before)

    def _measured(self, number, times):
        return Measurement(number_per_run=number, raw_times=times, **self._facts)

    def timeit(self, number=1000000):
        """One block of the given number of runs, after a short warm-up."""
        self._run(max(number // 100, 2))
        return self._measured(number, [self._run(number)])

    def _block_size(self, min_run_time):
        number = 1
        while True:
            taken = self._run(number)
            if taken > min_run_time / 1000 or number >= 10**9:
                return number
            number *= 10

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Blocks of runs, for at least min_run_time seconds; callback(number, seconds) after each block."""
        number, times, total = self._block_size(min_run_time), [], 0.0
        while total < min_run_time or not times:
            taken = self._run(number)
            times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
        return self._measured(number, times)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Blocks of runs until their quartiles differ by less than threshold of the median, or max_run_time seconds are over."""
        number, times = self._block_size(min_run_time), []
        while True:
            taken = self._run(number)
            times.append(taken)
            if callback is not None:
                callback(number, taken)
            found = self._measured(number, times)
            enough = len(times) >= 3 and sum(times) >= min_run_time and found.iqr <= threshold * found.median
            if enough or sum(times) >= max_run_time:
                return found
