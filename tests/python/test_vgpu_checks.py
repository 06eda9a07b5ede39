"""Every code path of the kernels under every check of the virtual GPU: bounds, races, uninitialized reads, barriers, host code
that dereferences device addresses. In a separate process, since the checks are chosen when the device is opened."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def test_kernels_pass_every_check():
    environment = dict(os.environ, STRATA_VGPU_CHECK="memory,race,init,sync,host", STRATA_TEST_DEVICE="vgpu")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HERE / "test_device_paths.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
