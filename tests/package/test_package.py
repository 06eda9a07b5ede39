"""Both forms of installation: find_package after `cmake --install`, and the wheel."""

import os
import pathlib
import subprocess
import sys

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


def test_a_program_builds_against_the_installed_package(tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    run("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    assert run(build / "consumer") == "12"
    assert run(prefix / "bin" / "strata", "--version").endswith("0.1.0")


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
