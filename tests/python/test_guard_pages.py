"""STRATA_GUARD_PAGES: an access outside a tensor's memory ends the process, and everything inside works as before."""

import os
import signal
import subprocess
import sys

import pytest

SUM = "import strata; x = strata.arange(1000.); assert (x * 2).sum().item() == 999000.; del x; assert strata.memory_stats()['allocated_bytes'] == 0"
# Reads one byte of `x` at a distance from its begin or end.
READ = "import ctypes, strata; x = strata.ones({n}, dtype=strata.{dtype}); ctypes.string_at(x.data_ptr() + {place}, 1)"


def ends_with(code, side):
    # In a build with sanitizers, their handler must not replace the signal by an exit status.
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"
    environment = {**os.environ, "STRATA_GUARD_PAGES": side, "ASAN_OPTIONS": sanitizer}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).returncode


@pytest.mark.parametrize("side", ["end", "front"])
def test_programs_run_as_before(side):
    assert ends_with(SUM, side) == 0


@pytest.mark.parametrize(
    "dtype, n, size", [("float32", 7, 4), ("uint8", 13, 1), ("float64", 3, 8), ("float32", 1024, 4)]
)
def test_the_first_byte_behind_a_tensor_is_guarded(dtype, n, size):
    assert ends_with(READ.format(dtype=dtype, n=n, place=n * size - 1), "end") == 0
    assert ends_with(READ.format(dtype=dtype, n=n, place=n * size), "end") == -signal.SIGSEGV


def test_the_last_byte_before_a_tensor_is_guarded():
    assert ends_with(READ.format(dtype="float32", n=7, place=0), "front") == 0
    assert ends_with(READ.format(dtype="float32", n=7, place=-1), "front") == -signal.SIGSEGV
