"""STRATA_COMPILE=everywhere: tests of the package pass while modules are replayed and graphs of backward passes are checked. The
whole suite passes, except tests that check when memory is freed or how much is used."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SUITES = {  # a test of each, for machines that cannot run everything twice
    "autograd": ["test_autograd.py", "test_autograd_views.py"],
    "modules": ["test_modules.py", "test_global_hooks.py"],
    "optim": ["test_optim.py", "test_lr_scheduler.py"],
    "functions": ["test_custom_functions.py", "test_node_hooks.py", "test_saved_tensors_hooks.py"],
}


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "STRATA_COMPILE": "everywhere"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=HERE.parents[1],
    )


# Prints how many graphs of backward passes were checked.
PYTEST = """
import sys, pytest
status = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
from strata import _C
print("checked", _C._followed_parts()[0])
sys.exit(status)
"""


@pytest.mark.parametrize("name", SUITES)
def test_the_suite_passes(name):
    done = run(PYTEST, *(HERE / file for file in SUITES[name]))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(done.stdout.rsplit("checked ", 1)[1]) > 10


PROGRAM = """
import strata
from strata import _C, _everywhere, nn

net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = strata.optim.Adam(net.parameters())
for _ in range(6):
    optimizer.zero_grad()
    net(strata.randn(3, 4)).square().mean().backward()
    (g,) = strata.autograd.grad(net(strata.ones(2, 4)).sum(), net[0].weight)
    optimizer.step()
graphs = [g for r in _everywhere._replays.values() for g in r.variants()[0]]
print(_C._followed_parts(), sum(g["replayed"] for g in graphs))
_C._plant_compile_faults("", "mm")
net(strata.randn(3, 4)).square().mean().backward()
"""


def test_what_is_followed():
    done = run(PROGRAM)
    assert done.stdout.splitlines()[0] == "(12, 0) 6", done.stdout + done.stderr
    assert "STRATA_COMPILE=everywhere found that a graph differs from the program: it raises mm: " in done.stderr
