"""Parts of bench/gpu_suite.sh without a GPU: planted bugs exist and are found, summaries of compute-sanitizer are parsed."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))
PLANTED = [BUILD / "bin/planted_bugs", ROOT / "tests/cuda/driver/planted.ptx"]


def planted(*words, status=0):
    done = subprocess.run([*PLANTED, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.parametrize(
    ("tool", "code", "says"),
    [
        ("memcheck", "CUDA_ERROR_ILLEGAL_ADDRESS", "0 bytes behind an allocation of 256 bytes"),
        ("racecheck", "CUDA_ERROR_LAUNCH_FAILED", "race in shared memory"),
        ("initcheck", "CUDA_ERROR_LAUNCH_FAILED", "nobody has written"),
        ("synccheck", "CUDA_ERROR_LAUNCH_FAILED", "divergent code"),
    ],
)
def test_each_tool_has_its_bug(tool, code, says):
    found = planted(tool, "--device", "vgpu")
    assert code in found and says in found
    assert planted(tool, "--device", "vgpu", "--mended").endswith("mended: CUDA_SUCCESS\n")


def test_planted_bugs_says_how_it_is_called():
    assert "usage: planted_bugs" in planted("lint", "--device", "vgpu", status=1)


def test_calls_from_cpp_are_rows_of_the_benchmark(tmp_path):
    command = [
        sys.executable,
        ROOT / "bench/gpu.py",
        "--device",
        "vgpu",
        "--small",
        "--cases",
        "C..|empty",
        "--rounds",
        "1",
    ]
    done = subprocess.run([*command, "--out", tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = {r["case"]: r for r in json.loads((tmp_path / "gpu.json").read_text())["rows"]}
    from_cpp = [name for name in rows if name.startswith("C++")]
    assert from_cpp == [
        "C++ enqueue of an add of 16 elements",
        "C++ launch through the runtime",
        "C++ bare cuLaunchKernel",
        "C++ empty({1000})",
    ]
    assert all(rows[name]["strata"] > 0 for name in from_cpp)
    assert "C++ bare cuLaunchKernel" in (tmp_path / "gpu.md").read_text()


def bash(script, **variables):
    text = f"source {ROOT}/bench/sanitizer.sh\n{script}"
    return subprocess.run(
        ["bash", "-uo", "pipefail", "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **variables},
    )


# As the tools print them.
LOGS = {
    "========= COMPUTE-SANITIZER\n100 ops ran on cuda\n========= ERROR SUMMARY: 0 errors\n": "0",
    "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n"
    "=========     at write+0x80 in planted.cu:12\n========= Target application returned an error\n"
    "========= ERROR SUMMARY: 1 error\n": "1",
    "========= Uninitialized __global__ memory read of size 4 bytes\n========= ERROR SUMMARY: 32 errors\n": "32",
    "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n": "0",
    "========= Error: Race reported between Write access at neighbour+0x70 in planted.cu:31\n"
    "=========     and Read access at neighbour+0x110 in planted.cu:33 [256 hazards]\n"
    "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n": "1",
    "========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)\n": "2",
    "========= ERROR SUMMARY: 3 errors\n========= ERROR SUMMARY: 0 errors\n": "3",  # two processes
}


@pytest.mark.parametrize("log", LOGS)
def test_findings_are_counted(log, tmp_path):
    (tmp_path / "log").write_text(log)
    done = bash(f"findings {tmp_path}/log")
    assert (done.returncode, done.stdout.strip()) == (0, LOGS[log])


@pytest.mark.parametrize(
    "log",
    [
        "",
        "========= Error: Target application terminated before first instrumented API call\n",
        "the program itself wrote: ERROR SUMMARY: 0 errors\n",
    ],
)
def test_a_log_without_a_summary_is_no_proof(log, tmp_path):
    (tmp_path / "log").write_text(log)
    assert bash(f"findings {tmp_path}/log").returncode != 0


@pytest.mark.parametrize(
    ("expected", "summary", "status", "passes"),
    [
        ("none", "========= ERROR SUMMARY: 0 errors", 0, True),
        ("none", "========= ERROR SUMMARY: 1 error", 0, False),
        ("none", "========= ERROR SUMMARY: 0 errors", 1, False),  # the program failed on its own
        ("none", "", 0, False),
        ("some", "========= ERROR SUMMARY: 1 error", 0, True),
        ("some", "========= ERROR SUMMARY: 1 error", 1, True),
        ("some", "========= ERROR SUMMARY: 0 errors", 0, False),
        ("some", "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", 0, True),
        ("some", "", 255, False),
    ],
)
def test_a_tool_must_find_what_is_there_and_nothing_else(expected, summary, status, passes, tmp_path):
    fake = tmp_path / "compute-sanitizer"
    fake.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3" = "--tool racecheck program" ] || exit 99\necho "{summary}"\nexit {status}\n'
    )
    fake.chmod(0o755)
    done = bash(f"sanitize racecheck {expected} program", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode == 0) == passes, done.stdout
    assert "racecheck:" in done.stdout


def test_without_a_gpu_the_checks_say_so():
    done = subprocess.run(
        [sys.executable, ROOT / "bench/gpu_checks.py", "compare", "--device", "cuda"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 3 and "cuda is not available" in done.stderr and "Traceback" not in done.stderr
