"""`strata doctor`: exit statuses and forms of output. What is found: tests/python/test_doctor.py."""

import json
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = BUILD / "bin" / "strata"


def run(*arguments, **environment):
    variables = {**os.environ, **environment}
    return subprocess.run([STRATA, "doctor", *arguments], capture_output=True, text=True, env=variables, timeout=120)


def test_statuses():
    assert run("--section", "probe", "--device", "vgpu").returncode == 0
    assert run("--section", "environment", CUDA_LAUNCH_BLOCKING="1").returncode == 1
    assert run("--section", "probe", "--device", "cuda:99").returncode == 2


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("--section", "x"), "there is no section 'x'"),
        (("--device", "x"), "no device 'x'"),
        (("--explain", "x"), "no check or topic 'x'"),
        (("--timeout", "0"), "seconds is 0"),
        (("--timeout", "nan"), "seconds is nan"),
        (("extra",), "extra"),
    ],
)
def test_wrong_options(arguments, says):
    done = run(*arguments)
    assert done.returncode == 1 and says in done.stderr and not done.stdout


def test_forms_of_output():
    done = run("--section", "environment", "--json", CUDA_LAUNCH_BLOCKING="1")
    told = json.loads(done.stdout)
    assert "environment.launch-blocking" in [f["id"] for f in told["findings"]] and told["status"] == done.returncode
    text = run("--section", "environment", CUDA_LAUNCH_BLOCKING="1").stdout
    assert "warning environment.launch-blocking" in text and "$ unset CUDA_LAUNCH_BLOCKING" in text
    script = run("--section", "environment", "--fix-hints", CUDA_LAUNCH_BLOCKING="1").stdout
    assert script.startswith("#!/bin/sh") and "\nunset CUDA_LAUNCH_BLOCKING\n" in script


def test_lists_and_explanations():
    listed = run("--list").stdout.splitlines()
    ids = [line.split()[0] for line in listed]
    assert len(ids) == len(set(ids)) > 90
    for id in ids:
        done = run("--explain", id)
        assert done.returncode == 0 and len(done.stdout) > 100
