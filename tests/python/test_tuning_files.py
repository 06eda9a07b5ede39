"""Times that strata.tune() and `strata tune` keep for later processes: what is read, what is ignored, what is written."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

COMMAND = pathlib.Path(os.environ["STRATA_BUILD_DIR"]) / "bin" / "strata"
CALL = ["mm", "f(64,2048), f(2048,64)", "--dtype", "bfloat16", "--device", "vgpu"]
PROGRAM = """
import strata
a, b = (strata.ones(*s, dtype=strata.bfloat16, device="vgpu") for s in ((64, 2048), (2048, 64)))
{body}
print([line[1] for line in strata.explain(strata.mm, a, b)][-1])
"""


@pytest.fixture
def environment(tmp_path):
    """The virtual GPU keeps files only if it is asked to."""
    return dict(os.environ, STRATA_CUDA_CACHE="1", STRATA_CACHE_DIR=str(tmp_path / "cache"))


def python(environment, body):
    """The kernel that a new process chooses, after it has run `body`."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1]


def command(environment, *args):
    return subprocess.run([COMMAND, "tune", *args], env=environment, capture_output=True, text=True)


def file_in(environment):
    (path,) = pathlib.Path(environment["STRATA_CACHE_DIR"], "tuning").iterdir()
    return path


def make_fastest(environment, kernel):
    """Rewrites the measured times, so that the result does not depend on them."""
    path = file_in(environment)
    content = json.loads(path.read_text())
    (times,) = content["microseconds"].values()
    assert kernel in times
    times[kernel] = min(times.values()) / 2
    path.write_text(json.dumps(content))


def test_a_later_process_uses_the_times_of_the_file(environment):
    first = python(environment, "")
    assert first == "tensor_cores_in_parts"
    python(environment, "with strata.tune(): strata.mm(a, b)")
    make_fastest(environment, "tiles")
    assert python(environment, "") == "tiles"
    assert python(environment, "strata.tune.forget()") == first
    off = dict(environment, STRATA_CUDA_CACHE="0")
    assert python(off, "assert strata.tune.file('vgpu') is None") == first


def test_the_command_and_the_library_share_the_file(environment):
    run = command(environment, *CALL)
    assert run.returncode == 0, run.stderr
    assert str(file_in(environment)) in run.stdout and " us" in run.stdout
    make_fastest(environment, "tensor_cores")
    assert (
        python(environment, f"assert str(strata.tune.file('vgpu')) == {str(file_in(environment))!r}") == "tensor_cores"
    )
    shown = json.loads(command(environment, "--list", "--json", "--device", "vgpu").stdout)
    ((call, times),) = shown["microseconds"].items()
    assert call.startswith("mm(bfloat16[64,2048]") and min(times, key=times.get) == "tensor_cores"
    run = command(environment, "--forget", "--device", "vgpu")
    assert run.returncode == 0 and "deleted" in run.stdout
    assert python(environment, "") == "tensor_cores_in_parts"


def test_measurements_are_added_to_the_file(environment):
    command(environment, *CALL)
    command(environment, "mm", "f(32,64), f(64,32)", "--dtype", "bfloat16", "--device", "vgpu")
    assert len(json.loads(file_in(environment).read_text())["microseconds"]) == 2
    assert command(environment, "mm", "f(8,64), f(64,32)", "--device", "vgpu", "--no-save").returncode == 0
    python(environment, "with strata.tune(save=False): strata.mm(a[:16], b)")
    assert len(json.loads(file_in(environment).read_text())["microseconds"]) == 2


BROKEN = {
    "empty": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "not JSON": lambda text: "\0\xff" * 100,
    "a list": lambda text: "[1, 2]",
    "deep": lambda text: "[" * 100_000,
    "another format": lambda text: text.replace('"format": 1', '"format": 2'),
    "another driver": lambda text: text.replace('"driver": ', '"driver": 9'),
    "times are a list": lambda text: json.dumps(json.loads(text) | {"microseconds": [1]}),
    "a time is a text": lambda text: text.replace('"tiles": ', '"tiles": "x", "other": '),
    "negative": lambda text: text.replace('"tiles": ', '"tiles": -'),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_ignored_and_replaced(environment, kind):
    command(environment, *CALL)
    make_fastest(environment, "tiles_in_parts")
    path = file_in(environment)
    content = json.dumps(json.loads(path.read_text()))
    path.write_text(BROKEN[kind](content))
    assert python(environment, "") == "tensor_cores_in_parts"
    python(environment, "with strata.tune(): strata.mm(a, b)")
    (times,) = json.loads(path.read_text())["microseconds"].values()
    assert {"tiles", "tiles_in_parts", "tensor_cores", "tensor_cores_in_parts"} == set(times)


def test_a_folder_that_cannot_be_written(environment, tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    run = command(environment, *CALL)
    assert run.returncode == 2 and "STRATA_CACHE_DIR" in run.stderr


def test_bad_arguments(environment):
    assert "which op" in command(environment).stderr
    assert "no times are kept for device cpu" in command(environment, "--list", "--device", "cpu").stderr
    run = command(environment, "no_such_op", "--device", "vgpu")
    assert run.returncode == 1 and "there is no op" in run.stderr
