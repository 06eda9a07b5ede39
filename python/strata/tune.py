"""Measures which kernel is fastest for given shapes."""

from . import _C


class tune:
    """In a with block, all kernels that accept a call are timed, and later calls with equal shapes use the fastest one.

    `strata.explain` shows the times. A call is measured once per shape, dtype and layout; ops that write to their
    arguments or draw random numbers are not measured. `tune.forget()` restores the order of the lists.
    """

    def __enter__(self):
        self._before = _C._set_tuning(True)
        return self

    def __exit__(self, *_):
        _C._set_tuning(self._before)

    @staticmethod
    def forget():
        """Discards all measurements."""
        _C._forget_tuning()
