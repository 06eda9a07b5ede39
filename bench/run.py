"""Compares Strata with PyTorch on this machine: `make bench`, or run.py --peer-python PATH [--cases REGEX] [--rounds 7] [--best] [--out DIR].

Each library runs in its own process; they are timed in turn, round by round, on the same inputs, and the result
is the ratio. Before a case is timed its result is compared with the peer's. Without a Python that has PyTorch, only our own times
are printed. Results go to bench/results/ as JSON and as a Markdown table.

PyTorch runs in two processes: as it is, and with settings of glibc's allocator that keep freed memory (KEEP). As it is, a
large result is new memory from the kernel in every call, and the page faults take most of the time.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from cases import CASES

HERE = pathlib.Path(__file__).resolve().parent
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 26)}


class Library:
    """A worker process that times cases of one module."""

    def __init__(self, python, module, env, suite="cases"):
        command = [python, str(HERE / "worker.py"), module, suite]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {python} cannot import {module}")
        self.info = json.loads(line)

    def ask(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(folder, name):
    ours, theirs = (np.load(f"{folder}/{m}.npy") for m in ("strata", "torch"))
    tolerance = 3e-2 if "bf16" in name else 2e-3 if "sgemm" in name else 1e-4
    scale = np.abs(theirs).max(initial=1.0)
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale):
        raise SystemExit(f"bench: {name}: the results differ; not timed")


def typical_us(rounds, best):
    return (min if best else statistics.median)(t for r in rounds for t in r) * 1e6


def run_cases(args, libraries, folder):
    rows = []
    for name, case in CASES.items():
        if not re.search(args.cases, name):
            continue
        saved = [library.ask(prepare=name)["saved"] for library in libraries]
        if len(libraries) > 1 and all(saved):
            compare(folder, name)
        for library in libraries:
            library.ask(seconds=0.05)  # warm up
        rounds = [[] for _ in libraries]
        for _ in range(args.rounds):
            for times, library in zip(rounds, libraries, strict=True):
                times.append(library.ask(seconds=args.seconds)["times"])
        times_us = [typical_us(r, args.best) for r in rounds]
        spread = [(max(map(statistics.median, r)) / min(map(statistics.median, r)) - 1) * 100 for r in rounds]
        row = dict(case=name, strata_us=times_us[0], floor=case["floor"], strata_spread_percent=spread[0])
        if len(times_us) > 1:
            row.update(
                torch_us=times_us[1],
                torch_spread_percent=spread[1],
                ratio=times_us[1] / times_us[0],
                kept_us=times_us[2],
                kept_ratio=times_us[2] / times_us[0],
                good=times_us[1] / times_us[0] >= case["floor"],
            )
        rows.append(row)
        print(show(row), flush=True)
    return rows


def show(row):
    text = f"{row['case']:42} {row['strata_us']:12.2f} us"
    if "ratio" in row:
        text += f"   PyTorch {row['torch_us']:12.2f} us   {row['ratio']:6.2f}x   memory kept {row['kept_ratio']:6.2f}x   floor {row['floor']}x{'' if row['good'] else '   BELOW'}"
    return text


def own_rows():
    """Measurements without a counterpart: start-up times and the C++ call."""
    build = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", HERE.parent / "build/release"))
    rows = []
    for name, command in (
        ("strata --version", [str(build / "bin/strata"), "--version"]),
        ("import strata", [sys.executable, "-c", "import strata"]),
        ("python startup", [sys.executable, "-c", "pass"]),
    ):
        if not pathlib.Path(command[0]).exists():
            continue
        times = []
        for _ in range(15):
            begin = datetime.datetime.now()
            subprocess.run(command, check=True, capture_output=True)
            times.append((datetime.datetime.now() - begin).total_seconds())
        rows.append(dict(case=name, strata_us=statistics.median(times) * 1e6))
    bench = build / "bin/strata_bench"
    if bench.exists():
        rows += json.loads(subprocess.run([str(bench)], check=True, capture_output=True, text=True).stdout)
    return rows


def machine():
    model = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return f"{model}, {os.cpu_count()} cores"


def write(args, info, rows, own):
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    record = dict(date=date, machine=machine(), **info, rows=rows, own=own)
    (out / "cpu.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [
        f"# CPU, {date}",
        "",
        f"{machine()}; {', '.join(f'{k} {v}' for k, v in info.items())}. {'Fastest calls' if args.best else 'Medians'}; ratio = PyTorch's time / ours.",
        "",
        "PyTorch's allocator returns large blocks to the kernel, so each large result costs page faults; Strata keeps them.",
        f"*Memory kept* is PyTorch with `{' '.join(f'{k}={v}' for k, v in KEEP.items())}`, which makes glibc keep them too.",
        "",
        "| case | Strata | PyTorch | ratio | PyTorch, memory kept | ratio | floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        pairs = [
            (r.get(f"{k}_us", float("nan")), r.get(q, float("nan")))
            for k, q in (("torch", "ratio"), ("kept", "kept_ratio"))
        ]
        cells = " | ".join(f"{us:.2f} us | {ratio:.2f}x" for us, ratio in pairs)
        lines.append(f"| {r['case']} | {r['strata_us']:.2f} us | {cells} | {r['floor']}x |")
    lines += ["", "| alone | time |", "|---|---|", *[f"| {r['case']} | {r['strata_us']:.3f} us |" for r in own]]
    (out / "cpu.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peer-python", default=os.environ.get("STRATA_PEER_PYTHON", ""), help="a Python that has PyTorch"
    )
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--best", action="store_true", help="the fastest call, not the median: beside other work")
    parser.add_argument("--seconds", type=float, default=0.15, help="per case, round and library")
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, STRATA_BENCH_TMP=folder)
        libraries = [Library(sys.executable, "strata", env)]
        if args.peer_python:
            peer_env = {k: v for k, v in env.items() if k != "PYTHONPATH"}
            libraries += [Library(args.peer_python, "torch", peer_env | more) for more in ({}, KEEP)]
        else:
            print("No PyTorch to compare with; name a Python that has it with --peer-python or STRATA_PEER_PYTHON.")
        info = {f"{n}": lib.info["version"] for n, lib in zip(("strata", "pytorch"), libraries, strict=False)}
        rows = run_cases(args, libraries, folder)
        for library in libraries:
            library.close()
    own = own_rows()
    for row in own:
        print(show(row))
    write(args, info, rows, own)
    print(f"wrote {args.out}/cpu.json and cpu.md")


if __name__ == "__main__":
    main()
