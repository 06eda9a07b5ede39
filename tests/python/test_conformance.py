"""PyTorch's own samples, if available: STRATA_CONFORMANCE names their folder."""

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
    if not (folder / "replay.py").exists():
        assert (ROOT / "docs/internals/conformance.json").exists(), "no samples here, and no recorded rates either"
        return
    package = pathlib.Path(strata._C.__file__).parents[1]  # the .py files may be links into the source tree
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/conformance.py"), str(folder), "--path", str(package), *extra],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checks pass" in done.stdout
