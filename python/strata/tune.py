"""Measuring which kernel is fastest for the shapes at hand."""

from . import _C


class tune:
    """In a with block, the kernels that could run a call are timed, and later calls with equal shapes take the fastest one.

    `strata.explain` shows the times. A call is measured once per shape, dtype and layout; what writes to its arguments or draws
    random numbers is not measured. `tune.forget()` goes back to the order of the lists.
    """

    def __enter__(self):
        self._before = _C._set_tuning(True)
        return self

    def __exit__(self, *_):
        _C._set_tuning(self._before)

    @staticmethod
    def forget():
        """Forgets all times."""
        _C._forget_tuning()
