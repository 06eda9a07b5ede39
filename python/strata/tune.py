"""Measures which kernel is fastest for given shapes."""

import pathlib

from . import _C


class tune:
    """In a with block, all kernels that accept a call are timed, and later calls with equal shapes use the fastest one.

    `strata.explain` shows the times. A call is measured once per shape, dtype and layout; ops that write to their
    arguments or draw random numbers are not measured. Times of a GPU are added to a file (`tune.file()`), one per GPU,
    driver and library versions, so that later processes use them too; `tune(save=False)` writes none. `tune.forget()`
    restores the order of the lists.
    """

    def __init__(self, save=True):
        self._save = save

    def __enter__(self):
        self._before = _C._set_tuning(True)
        return self

    def __exit__(self, *_):
        _C._set_tuning(self._before)
        if self._save and not self._before:
            _C._save_tuning()

    @staticmethod
    def file(device="cuda"):
        """The path of the file with the times of a GPU, or None if nothing is kept (`STRATA_CUDA_CACHE=0`)."""
        path = _C._tuning_file(str(device))
        return pathlib.Path(path) if path else None

    @staticmethod
    def forget():
        """Discards all measurements of this process. Files stay; delete `tune.file()` to measure again."""
        _C._forget_tuning()
