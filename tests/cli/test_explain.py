"""`strata explain` and `strata libraries`: the contents of the tables."""

import json
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = BUILD / "bin" / "strata"


def run(*arguments):
    return subprocess.run([STRATA, *arguments], capture_output=True, text=True, check=True).stdout


def test_explain_lists_every_entry_of_a_device():
    found = json.loads(run("explain", "matmul", "f(64,512), f(512,64)", "--device", "vgpu", "--json"))
    kernels = {k["kernel"]: k for k in found["kernels"]}
    assert list(kernels)[-2:] == ["tiles_in_parts", "tiles"]
    assert kernels["cublaslt"]["reason"] == "cuBLASLt runs on device cuda"
    assert kernels["tiles_in_parts"]["reason"].startswith("chosen") and kernels["tiles_in_parts"]["workspace"] > 0
    assert kernels["tiles"]["reason"] == "ready, but tiles_in_parts comes first"
    text = run("explain", "matmul", "f(8,8), f(8,8)", "--device", "vgpu")
    assert "the sums are short" in text and "own" in text


def test_explain_tells_sources_and_numbers():
    text = run("explain", "conv2d", "f(1,8,32,32), f(8,8,3,3), None, 1, 1")
    assert "3x the rounding error" in text and "oneDNN" in text


def test_libraries_are_listed():
    found = json.loads(run("libraries", "--json"))
    assert [entry["library"] for entry in found] == ["NVRTC", "cuBLASLt", "cuDNN", "NCCL", "NVML"]
    text = run("libraries")
    for entry in found:
        assert entry["library"] in text and (entry["path"] or entry["why_not"]) in text


@pytest.mark.parametrize(
    "command", [("explain", "mm", "f(2,2), f(2,2)"), ("tune", "mm", "f(2,2), f(2,2)"), ("tune", "--list")]
)
def test_devices_that_do_not_exist_and_that_are_missing(command):
    for device, status, says in [("zork", 1, "--device zork: no such device"), ("mps", 3, "is not available")]:
        done = subprocess.run([STRATA, *command, "--device", device], capture_output=True, text=True)
        assert done.returncode == status and says in done.stderr, done.stderr
