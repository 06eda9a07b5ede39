"""The machinery of benchmarks beside PyTorch on one GPU.

Both libraries run in this process and are timed in turn, round by round: a card under full load slows down within a tenth of a
second. Each side records calls over several sets of inputs, together larger than the cache, into a graph, and its replays are timed
by events: the time is the device's, with a cold cache. "eager" is the time of one of 64 calls in a row, which for small calls is
the host's. --entries times each kernel that is ready for a case.

A case is (floating-point operations, bytes, make): make(side) returns a call over new inputs of that library.
"""

import argparse
import datetime
import json
import math
import pathlib
import platform
import re
import statistics
import sys
import time

import strata
from strata import _C

HERE = pathlib.Path(__file__).resolve().parent
SETS_BYTES = 400 << 20  # of all sets of inputs together: several times the cache


def size_of(dtype):
    return {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}[dtype]


def with_tf32(m, f):
    """f, with TF32 products of the library m in the call."""

    def call():
        m.backends.cuda.matmul.allow_tf32 = True
        try:
            return f()
        finally:
            m.backends.cuda.matmul.allow_tf32 = False

    return call


class Side:
    """One library."""

    def __init__(self, m):
        self.m, self.gpu, self.name = m, m.cuda, m.__name__

    def randn(self, *shape, dtype):
        return self.m.randn(*shape, device="cuda").to(getattr(self.m, dtype))

    def laid_out(self, t, layout):
        return t.contiguous(memory_format=getattr(self.m, layout))

    def recorded(self, case, sets, calls):
        """A replay of `calls` calls that go round over sets of inputs."""
        make = case[2]
        calls_of = [make(self) for _ in range(sets)]
        side = self.gpu.Stream()
        side.wait_stream(self.gpu.current_stream())
        with self.gpu.stream(side):
            for f in calls_of[:2]:
                f()
        self.gpu.synchronize()
        graph = self.gpu.CUDAGraph()
        with self.gpu.graph(graph):
            for i in range(calls):
                calls_of[i % sets]()
        self.keep = calls_of
        return graph.replay

    def eager_seconds(self, case, count=64):
        f = case[2](self)
        f()
        self.gpu.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            f()
        self.gpu.synchronize()
        return (time.perf_counter() - start) / count

    def seconds(self, replay, calls):
        begin, end = self.gpu.Event(enable_timing=True), self.gpu.Event(enable_timing=True)
        begin.record()
        replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / calls


class Entry(Side):
    """Strata with one of its kernels."""

    def __init__(self, name):
        super().__init__(strata)
        self.name = name

    def recorded(self, *args):
        made = []
        _C._prefer_kernel(self.name)
        try:
            lines = strata.explain(lambda: made.append(super(Entry, self).recorded(*args)))
        finally:
            _C._prefer_kernel(None)
        return made[0] if any(line[1] == self.name and line[2].startswith("chosen") for line in lines) else None


def run_case(name, case, sides, rounds, eager=True):
    flops, size, _ = case
    sets = max(1, min(64, SETS_BYTES // size + 1))
    calls = max(4, min(256, int(2e-3 / max(flops / 500e12, size / 3e12, 3e-6))))
    calls = -(-calls // sets) * sets
    replays = [s.recorded(case, sets, calls) for s in sides]
    times = [[] for _ in sides]
    for _ in range(rounds):
        for s, replay, t in zip(sides, replays, times, strict=True):
            if replay:
                s.seconds(replay, calls)  # clocks and queues as in steady work
                t.append(s.seconds(replay, calls))
                time.sleep(0.02)
    row = dict(case=name, flops=flops, bytes=size, calls=calls, sets=sets)
    for key, t in zip([s.name for s in sides], times, strict=True):
        if t:
            row[key] = statistics.median(t)
    for s in sides[:2] if eager else []:
        row[f"{s.name}_eager"] = statistics.median(s.eager_seconds(case) for _ in range(rounds))
    if "torch" in row and eager:
        row["eager_ratio"] = row["torch_eager"] / row["strata_eager"]
        row["ratio"] = row["torch"] / row["strata"]
    row["entry"] = chosen_kernel(case[2](Side(strata)))
    return row


def chosen_kernel(f):
    """The kernel that runs by itself, with its plan."""
    lines = strata.explain(f)
    if not lines:
        return "compiled by the user"  # strata.gemm.compile: no op
    plan = re.search(r"plan ([^;]*)", lines[-1][2])
    return lines[-1][1] + (f" ({plan[1]})" if plan else "")


def shown(row, entries):
    if "error" in row:
        return f"{row['case']:<44} failed: {row['error'][:200]}"
    text = f"{row['case']:<44} {row['strata'] * 1e6:9.2f} us {row['flops'] / row['strata'] / 1e12:7.1f} TFLOP/s"
    if "ratio" in row:
        text += (
            f"   torch {row['torch'] * 1e6:9.2f} us   {row['ratio']:5.2f}x   eager {row['strata_eager'] * 1e6:8.2f} us"
        )
        text += f" {row['eager_ratio']:5.2f}x"
    text += f"   {row['entry']}"
    text += "".join(f"   {e} {row[e] * 1e6:.2f}" for e in entries if e in row)
    return text


def markdown(result, title, script):
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    lines = [
        f"# {title}: {result['device']}",
        "",
        f"{result['date']}; {versions}; `bench/{script}.py`: device time in replayed graphs, cold cache, medians of interleaved rounds.",
        "",
        summary(result["rows"]),
        "",
        "| case | Strata | TFLOP/s | PyTorch | ratio | eager, per call | PyTorch | ratio | kernel |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        if "error" in r:
            lines.append(f"| {r['case']} | failed: {r['error']} | | | | | | | |")
            continue
        torch = [f"{r[key] * 1e6:.2f} us" if key in r else "" for key in ("torch", "torch_eager")]
        ratio = [f"{r[key]:.2f}x" if key in r else "" for key in ("ratio", "eager_ratio")]
        lines.append(
            f"| {r['case']} | {r['strata'] * 1e6:.2f} us | {r['flops'] / r['strata'] / 1e12:.1f} | {torch[0]} | {ratio[0]} "
            f"| {r['strata_eager'] * 1e6:.2f} us | {torch[1]} | {ratio[1]} | {r['entry']} |"
        )
    return "\n".join(lines) + "\n"


def summary(rows):
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if not ratios:
        return ""
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return f"{len(ratios)} cases, geometric mean {mean:.2f}x, least {min(ratios):.2f}x"


def main(doc, script, title, cases, entries, libraries, side=Side, run=run_case, shown=shown, markdown=markdown):
    """The command line of a benchmark; results go to <script>.json and <script>.md."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--entries", action="store_true", help="each kernel that is ready, too")
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    if not strata.cuda.is_available():
        print(f"{script}.py: there is no GPU: {strata.cuda.why_not()}", file=sys.stderr)
        return 3
    sides, versions = [side(strata)], {"strata": strata.__version__, "python": platform.python_version()}
    try:  # before ours are opened, so that both sides use the libraries of its packages
        import torch

        torch.backends.cudnn.allow_tf32 = False  # as in Strata
        sides.append(side(torch))
        versions["torch"] = torch.__version__
    except ImportError:
        print("PyTorch is not installed: our own figures only")
    versions |= {f["name"]: f["version"] for f in strata.cuda.libraries() if f["name"] in libraries}
    if args.entries:
        sides += [Entry(name) for name in entries]
    result = dict(
        date=datetime.date.today().isoformat(), device=strata.cuda.get_device_name(), versions=versions, rows=[]
    )
    for name, case in cases.items():
        if not re.search(args.cases, name):
            continue
        try:
            row = run(name, case, sides, args.rounds)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as e:
            row = dict(case=name, error=f"{type(e).__name__}: {e}")
        result["rows"].append(row)
        print(shown(row, entries), flush=True)
        for s in sides:
            s.keep = None
            s.gpu.empty_cache()
    print(summary(result["rows"]))
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{script}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{script}.md").write_text(markdown(result, title, script))
    print(f"wrote {folder}/{script}.json and {script}.md")
    return 0
