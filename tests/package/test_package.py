"""Both forms of installation: find_package after `cmake --install`, and the wheel."""

import itertools
import os
import pathlib
import re
import subprocess
import sys

import gen_ops
import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))
JOBS = os.environ.get("STRATA_JOBS", str(os.cpu_count()))


def run(*command, **options):
    """Runs a command outside this source tree's PYTHONPATH and returns what it prints."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | options.pop("env", {})
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def cached(variable):
    """A variable of the build tree's CMake cache."""
    lines = (BUILD / "CMakeCache.txt").read_text().splitlines()
    return next(line.split("=", 1)[1] for line in lines if line.startswith(variable + ":"))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installed Strata."""
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def installed_headers(prefix):
    return {
        str(f.relative_to(prefix / "include")): f.read_text() for f in (prefix / "include").rglob("*") if f.is_file()
    }


def test_a_program_builds_against_the_installed_package(tmp_path, prefix):
    build, hostile = tmp_path / "build", tmp_path / "hostile"
    own = {str(f.relative_to(HERE / "consumer/own")) for f in (HERE / "consumer/own").rglob("*.h")}
    names = {name.removeprefix("strata/layers/") for name in installed_headers(prefix)}
    names |= {str(f.relative_to(ROOT / "src")) for f in (ROOT / "src").rglob("*.h")}
    assert own <= names
    for name in [*(n for n in names - own if not n.startswith("strata/")), "fmt/core.h", "fmt/format.h"]:
        (hostile / name).parent.mkdir(parents=True, exist_ok=True)
        (hostile / name).write_text(f"#error {name} of another project\n")
    run("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DSTRATA_HOSTILE={hostile}", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON")  # fmt: skip
    run("cmake", "--build", build)
    gradient, rank, error = run(build / "consumer").splitlines()
    assert gradient == "12" and rank == "4"
    assert "out of range" in error and "7" in error
    assert run(prefix / "bin" / "strata", "--version").endswith("0.1.0")


def test_installed_headers_are_below_strata_and_complete(prefix):
    headers = installed_headers(prefix)
    assert {name.split("/")[0] for name in headers} == {"strata"}
    reached, waiting = set(), ["strata/strata.h", "strata/torch.h", "strata/engine.h", "strata/nvinfer.h"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += re.findall(r'^\s*#\s*include\s+"([^"]+)"', headers[name], re.M)
    assert reached == headers.keys()  # no other header is installed


def test_every_public_op_has_its_doc_above_it_and_helpers_are_absent(prefix):
    headers = installed_headers(prefix)
    ops = {name: text for name, text in headers.items() if name.startswith("strata/ops/")}
    functions = 0
    for name, text in [*ops.items(), ("strata/tensor_methods.inc", headers["strata/tensor_methods.inc"])]:
        lines = text.splitlines()
        for above, line in itertools.pairwise(lines):
            if line.startswith("inline ") or line.endswith(") const;"):
                assert above.startswith("/// "), f"{name}: {line}"
                functions += 1
    assert functions > 1400
    sources = (ROOT / "src" / "ops").rglob("*.cpp")
    helpers = {op.ident for source in sources for op in gen_ops.read_ops(source) if ".helper()" in op.tail}
    declared = set(re.findall(r"LastingRecord op_(\w+);", "".join(ops.values())))
    assert len(helpers) > 100 and "softmax" in declared and not helpers & declared


def test_the_wheel_trains_in_a_fresh_environment(tmp_path):
    # With the compiler and the flags of the build tree, so that ccache answers instead of the compiler, and with its kernels.
    settings = {"CXX": cached("CMAKE_CXX_COMPILER"), "CMAKE_BUILD_PARALLEL_LEVEL": JOBS}
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path,
        "-C", f"cmake.define.STRATA_WERROR={cached('STRATA_WERROR')}",
        "-C", f"cmake.define.STRATA_KERNELS_FROM={BUILD / 'kernels'}", ROOT, env=settings)  # fmt: skip
    (wheel,) = tmp_path.glob("strata_dl-*.whl")
    assert wheel.stat().st_size < 40e6
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", wheel)
    run(tmp_path / "venv/bin/python", HERE / "train_step.py", cwd=tmp_path)
    assert run(tmp_path / "venv/bin/strata", "--version", cwd=tmp_path).endswith("0.1.0")
