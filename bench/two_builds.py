"""Times two builds of Strata on the same cases, in turn, round by round: two_builds.py BEFORE AFTER [--cases REGEX] [--out DIR].

BEFORE and AFTER are folders that hold the package `strata` (build/release/python of two checkouts). The result is the ratio
of their times; below 1, the later build is slower. Each build runs in its own process. Cases that the earlier build cannot
run are listed.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile

import cases
import networks
from run import HERE, Library, machine, typical_us

SUITES = {"cases": cases.CASES, "networks": networks.CASES}


class Build:
    """A build and its worker, which is started again after a case that it could not run."""

    def __init__(self, folder, suite, env):
        self.start = lambda: Library(sys.executable, "strata", env | {"PYTHONPATH": folder}, suite)
        self.library = self.start()

    def ask(self, **job):
        try:
            return self.library.ask(**job)
        except (json.JSONDecodeError, BrokenPipeError):  # the worker has ended, with a traceback
            self.library = self.start()
            return None


def measure(builds, name, case, args):
    """The medians of both builds in microseconds, or None."""
    layout = {"layout": case["layouts"][0]} if "layouts" in case else {}
    if not all([build.ask(prepare=name, **layout) for build in builds]):
        return None
    for build in builds:
        build.ask(seconds=0.05)  # warm up
    rounds = [[] for _ in builds]
    for k in range(args.rounds):
        for i in (0, 1) if k % 2 == 0 else (1, 0):
            rounds[i].append(builds[i].ask(seconds=args.seconds)["times"])
    return [typical_us(r, best=False) for r in rounds]


def write(out, rows, absent):
    lines = [
        "# Two builds beside each other",
        "",
        f"{machine()}. Medians; a ratio below 1 means that the later build is slower.",
        "",
        "| case | before, us | after, us | ratio |",
        "|---|---:|---:|---:|",
        *(f"| {r['case']} | {r['before_us']:.2f} | {r['after_us']:.2f} | {r['ratio']:.3f} |" for r in rows),
        *(["", f"Not in the earlier build: {', '.join(absent)}."] if absent else []),
    ]
    (out / "two_builds.md").write_text("\n".join(lines) + "\n")
    (out / "two_builds.json").write_text(json.dumps(dict(machine=machine(), rows=rows, absent=absent), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.1, help="per case, round and build")
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    rows, absent = [], []
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, STRATA_BENCH_TMP=folder)
        for suite, all_cases in SUITES.items():
            builds = [Build(path, suite, env) for path in (args.before, args.after)]
            for name, case in all_cases.items():
                if not re.search(args.cases, name):
                    continue
                found = measure(builds, name, case, args)
                if found is None:
                    absent.append(name)
                    continue
                rows.append(dict(case=name, before_us=found[0], after_us=found[1], ratio=found[0] / found[1]))
                print(f"{name:48} {found[0]:12.2f} {found[1]:12.2f}   {found[0] / found[1]:.3f}", flush=True)
    write(pathlib.Path(args.out), rows, absent)


if __name__ == "__main__":
    main()
