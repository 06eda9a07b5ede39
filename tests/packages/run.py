"""Runs a small program of each widely used package with Strata in the place of torch.

    PYTHONPATH=build/release/python ECO/bin/python tests/packages/run.py [--json FILE] [PACKAGE ...]

ECO has the packages, without PyTorch. Packages that are not installed are listed as such. Status 1: a program failed.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

DRIVERS = pathlib.Path(__file__).parent / "drivers"
# The distribution of a package whose name is another one.
DISTRIBUTIONS = {"open_clip": "open_clip_torch", "pyro": "pyro-ppl", "sklearn": "scikit-learn"}


def version_of(package):
    """The version of a package, None if it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(package, package))
    except importlib.metadata.PackageNotFoundError:
        return None


def run(package, seconds):
    """The result of a package's program: "passes", or the last line that it printed."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "NO_COLOR": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "strata.torch", str(DRIVERS / f"use_{package}.py")]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"no result after {seconds} seconds", ""
    if done.returncode == 0:
        return "passes", done.stdout
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return (lines[-1] if lines else f"status {done.returncode}"), done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help="the packages to run; all by default")
    parser.add_argument("--json", help="where to write the results")
    parser.add_argument("--seconds", type=int, default=300, help="time for each program")
    parser.add_argument("--verbose", action="store_true", help="print what failing programs print")
    options = parser.parse_args()
    rows, names = {}, options.packages or sorted(file.stem.removeprefix("use_") for file in DRIVERS.glob("use_*.py"))
    for package in names:
        version = version_of(package)
        result, text = run(package, options.seconds) if version else ("not installed", "")
        rows[package] = {"version": version, "result": result}
        print(f"{package:30} {version or '-':12} {result[:160]}", flush=True)
        if options.verbose and result != "passes":
            print(text)
    passed = sum(row["result"] == "passes" for row in rows.values())
    installed = sum(row["version"] is not None for row in rows.values())
    print(f"{passed} of {installed} installed packages pass")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if passed == installed else 1


if __name__ == "__main__":
    sys.exit(main())
