"""The command when its output cannot be written: exit statuses, and no abort."""

import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = str(BUILD / "bin" / "strata")


def status(command):
    return subprocess.run(["bash", "-c", command.replace("strata", STRATA, 1)], timeout=120).returncode


@pytest.mark.parametrize("redirect", ["2>/dev/full", "2>&-", "2>/dev/null", "0<&- 2>&-"])
def test_standard_error_does_not_change_the_exit_status(redirect):
    assert status(f"strata explain nosuch >/dev/null {redirect}") == 1
    assert status(f"strata nosuch {redirect}") == 1
    assert status(f"strata tune --list --device mps {redirect}") == 3
    assert status(f"strata ops conv >/dev/null {redirect}") == 0


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-", ">/dev/full 2>/dev/full", ">&- 2>&-", "0<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["ops", "--help", "--version", "explain add", "explain add --json", "devices"])
def test_output_that_cannot_be_written_is_the_environment_s_fault(arguments, redirect):
    assert status(f"strata {arguments} {redirect} 2>/dev/null") == 2


def test_a_closed_pipe_ends_the_command():
    assert status("strata ops 2>&1 | head -1 >/dev/null; exit ${PIPESTATUS[0]}") in (0, 2)


def test_training_goes_on_without_standard_error(digits, tmp_path):
    for i, redirect in enumerate(["2>&-", "2>/dev/full"]):
        out = tmp_path / str(i)
        assert status(f"strata train --data {digits} --limit 64 --epochs 1 --out {out} >/dev/null {redirect}") == 0
        assert (out / "metrics.csv").read_text().startswith("device,")
        assert not any(b"epoch 1/1" in p.read_bytes() for p in out.iterdir())
