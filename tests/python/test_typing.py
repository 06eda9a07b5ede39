"""mypy and pyright accept typical programs and the examples; basedpyright is pyright with its own Node."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import strata

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/python/typing_program.py"
FILES = [str(f) for f in (PROGRAM, *sorted((ROOT / "examples/python").glob("*.py")))]
PACKAGES = str(pathlib.Path(strata.__file__).parent.parent)


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


def mypy(folder, *arguments):
    """mypy of this environment, with the package where this process found it."""
    options = ["--cache-dir", folder, "--python-version", "3.11", "--check-untyped-defs"]
    return run(sys.executable, "-m", "mypy", *options, *arguments, env={"MYPYPATH": PACKAGES, "PATH": ""})


def pyright(folder, files):
    (folder / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "include": files,
                "extraPaths": [PACKAGES],
                "pythonVersion": "3.11",
                "typeCheckingMode": "standard",
                "reportMissingImports": "error",
            }
        )
    )
    return run(sys.executable, "-m", "basedpyright", "-p", folder, "--pythonpath", sys.executable)


def test_the_program_runs():
    status, text = run(sys.executable, PROGRAM, env=os.environ | {"PYTHONPATH": PACKAGES})
    assert status == 0, text


def test_mypy_accepts_programs(tmp_path):
    status, text = mypy(tmp_path, *FILES)
    assert status == 0, text


def test_mypy_accepts_the_stubs(tmp_path):
    status, text = mypy(tmp_path, "-p", "strata")
    assert status == 0, text


def test_pyright_accepts_programs(tmp_path):
    status, text = pyright(tmp_path, FILES)
    assert status == 0, text


WRONG = """\
import strata
from strata import nn

x: int = strata.ones(2)
strata.ones(2).no_such_method()
strata.relu("text")
nn.Linear("four", 2)
strata.no_such_function()
with strata.no_grad() as mode:
    mode.no_such_attribute
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_find_mistakes(tmp_path, checker):
    """The types are not just Any: each of these lines is an error."""
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    status, text = mypy(tmp_path / "cache", program) if checker == "mypy" else pyright(tmp_path, [str(program)])
    assert status == 1, text
    assert {n for n in range(1, 20) if f"wrong.py:{n}:" in text} >= {4, 5, 6, 7, 8, 10}, text
