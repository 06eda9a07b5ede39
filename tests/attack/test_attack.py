"""A fixed number of seeded attacks: the same calls and programs in every run. `make attack` makes many more, with new seeds."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


def output_of(script, *arguments, **environment):
    """The output of the script; it runs in a separate process, because it forks and limits memory."""
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize("side, seed, calls", [("end", "ci", 16_000), ("front", "ci front", 4_000)])
def test_hostile_calls_end_well(side, seed, calls):
    ended = output_of("calls.py", "--calls", calls, "--seed", seed, STRATA_GUARD_PAGES=side)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{calls} calls" in ended.stdout


def test_programs_agree_on_every_device_and_with_finite_differences():
    ended = output_of("differential.py", "--programs", 300, "--seed", "ci", "--against", "vgpu,reference,differences")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "300 programs" in ended.stdout


@pytest.mark.parametrize("device, programs", [("cpu", 300), ("vgpu", 60)])
def test_compiled_programs_leave_what_plain_ones_do(device, programs):
    for more in ((), ("--check",)):
        ended = output_of("compiled.py", "--programs", programs, "--seed", "ci", "--device", device, *more)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert f"{programs} programs" in ended.stdout


def test_damaged_graphs_run_or_are_refused():
    ended = output_of("graphs.py", "--texts", 3000, "--seed", "ci")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3000 damaged graphs" in ended.stdout


# Planted findings, to test the attack itself: each program ends as its name says.
PLANTED = {
    "death": "import ctypes; ctypes.string_at(0)",
    "hang": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "exit": "import os; os._exit(3)",
}


@pytest.mark.parametrize("kind", PLANTED)
def test_children_report_how_a_job_ended(kind, tmp_path):
    script = f"""
import sys, json
sys.path.insert(0, {str(FOLDER)!r})
import children
children.CPU_SECONDS, children.DEAF_SECONDS = 0.5, 0.5
def job(number):
    if number == 3:
        exec({PLANTED[kind]!r})
    if number == 5:
        yield "wrong"
print(json.dumps(children.run(job, 8, {str(tmp_path)!r}, jobs=2, batch=4)))
"""
    # In a build with sanitizers, their handler must not replace the signal by an exit status.
    environment = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    found = dict(json.loads(ended.stdout))
    assert set(found) == {3, 5} and found[5] == "wrong"
    assert {"death": "SIGSEGV", "hang": "hung", "exit": "status 3"}[kind] in found[3]


def test_a_long_job_that_answers_ctrl_c_is_no_finding(tmp_path):
    script = f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
import children
children.CPU_SECONDS = 0.5
def job(number):
    try:
        while number == 1:
            pass
    except KeyboardInterrupt:
        return
    yield "reached"
print(children.run(job, 3, {str(tmp_path)!r}, jobs=1, batch=3))
"""
    # In a build with sanitizers, their handler must not replace the signal by an exit status.
    environment = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ended.stdout.strip() == "[(0, 'reached'), (2, 'reached')]", ended.stderr


def test_a_planted_wrong_gradient_is_found():
    """A planted wrong gradient does not pass."""
    script = f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
import strata, differential
sin = strata.sin
class Wrong(strata.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return sin(x)
    @staticmethod
    def backward(ctx, g):
        return g * 0.5
strata.sin = Wrong.apply
found = sum(differential.run_program("planted", n, ["differences"])[1] is not None for n in range(150))
print(found)
"""
    # In a build with sanitizers, their handler must not replace the signal by an exit status.
    environment = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert int(ended.stdout) > 0, ended.stderr
