"""PyTorch's own samples: those with complex numbers, and the others if STRATA_CONFORMANCE names their folder."""

import os
import pathlib
import subprocess
import sys

import pytest
import strata

ROOT = pathlib.Path(__file__).resolve().parents[2]


def samples_folder():
    named = os.environ.get("STRATA_CONFORMANCE")
    return pathlib.Path(named) if named else ROOT.parent / "shared" / "conformance"


# On the virtual GPU a fixed tenth: all of it takes minutes.
@pytest.mark.parametrize("extra", [[], ["--device", "vgpu", "--tenth"]], ids=["cpu", "vgpu"])
def test_no_rate_falls_and_nothing_crashes(extra):
    folder = samples_folder()
    given = [str(folder)] if (folder / "replay.py").exists() else []  # those with complex numbers are always there
    package = pathlib.Path(strata._C.__file__).parents[1]  # the .py files may be links into the source tree
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/conformance.py"), *given, "--path", str(package), *extra],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checks pass" in done.stdout
