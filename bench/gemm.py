"""Matrix products beside PyTorch on one GPU: gemm.py [--cases REGEX] [--rounds 7] [--entries] [--out DIR].

Both libraries run in this process and are timed in turn, round by round: a card under full load slows down within a tenth of a
second. Each side records calls over several sets of inputs, together larger than the cache, into a graph, and its replays are timed
by events: the time is the device's, with a cold cache. "eager" is the time of one of 64 calls in a row, which for small products is
the host's. --entries times each kernel that is ready for a case. Results go to gemm.json and gemm.md.
"""

import argparse
import datetime
import json
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
ENTRIES = ["matrix_vector", "hopper", "cublaslt", "tensor_cores"]


def product(m, n, k, dtype="bfloat16", left="n", right="n"):
    """m x k times k x n; "t": the factor is a transposed view."""

    def make(s):
        def factor(rows, columns, order):
            return s.randn(rows, columns, dtype=dtype) if order == "n" else s.randn(columns, rows, dtype=dtype).t()

        a, b = factor(m, k, left), factor(k, n, right)
        return lambda: s.m.mm(a, b)

    return 2 * m * n * k, (m * k + k * n + m * n) * size_of(dtype), make


def linear(rows, inputs, outputs, dtype="bfloat16"):
    def make(s):
        x, w, b = (
            s.randn(rows, inputs, dtype=dtype),
            s.randn(outputs, inputs, dtype=dtype),
            s.randn(outputs, dtype=dtype),
        )
        return lambda: s.m.nn.functional.linear(x, w, b)

    size = (rows * inputs + inputs * outputs + rows * outputs) * size_of(dtype)
    return 2 * rows * inputs * outputs, size, make


def vector(m, k, dtype="bfloat16"):
    def make(s):
        a, x = s.randn(m, k, dtype=dtype), s.randn(k, dtype=dtype)
        return lambda: s.m.mv(a, x)

    return 2 * m * k, m * k * size_of(dtype), make


def batch(count, m, n, k, dtype="bfloat16", right="n"):
    def make(s):
        a = s.randn(count, m, k, dtype=dtype)
        b = s.randn(count, k, n, dtype=dtype) if right == "n" else s.randn(count, n, k, dtype=dtype).transpose(1, 2)
        return lambda: s.m.bmm(a, b)

    return 2 * count * m * n * k, count * (m * k + k * n + m * n) * size_of(dtype), make


def heads(b, h, t, d, dtype="bfloat16"):
    """Scores of attention from [batch, time, heads, width] without copies on our side."""

    def make(s):
        q, k = (s.randn(b, t, h, d, dtype=dtype).transpose(1, 2) for _ in range(2))
        return lambda: s.m.matmul(q, k.transpose(-2, -1))

    return 2 * b * h * t * t * d, b * h * (2 * t * d + t * t) * size_of(dtype), make


def size_of(dtype):
    return {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}[dtype]


CASES = {f"bf16 {n}^3": product(n, n, n) for n in (512, 1024, 2048, 4096, 8192)}
CASES |= {
    "bf16 4097^3": product(4097, 4097, 4097),
    "bf16 4096^3, b transposed": product(4096, 4096, 4096, right="t"),
    "bf16 4096^3, a transposed": product(4096, 4096, 4096, left="t"),
    "bf16 4096^3, both transposed": product(4096, 4096, 4096, left="t", right="t"),
    "f16 4096^3": product(4096, 4096, 4096, "float16"),
    "bf16 linear 16x4096 -> 4096": linear(16, 4096, 4096),
    "bf16 linear 1x4096 -> 4096": linear(1, 4096, 4096),
    "bf16 linear 64x4096 -> 4096": linear(64, 4096, 4096),
    "bf16 linear 128x4096 -> 11008": linear(128, 4096, 11008),
    "bf16 linear 8192x768 -> 3072": linear(8192, 768, 3072),
    "bf16 linear 8192x3072 -> 768": linear(8192, 3072, 768),
    "bf16 linear 2048x768 -> 50257": linear(2048, 768, 50257),
    "bf16 weight gradient 3072x768, 8192 rows": product(3072, 768, 8192, left="t"),
    "bf16 3000x1000x2000": product(3000, 1000, 2000),
    "bf16 1023x1025x1027": product(1023, 1025, 1027),
    "bf16 257x259x263": product(257, 259, 263),
    "bf16 513x8192x1023": product(513, 8192, 1023),
    "bf16 16x4095x4095": product(16, 4095, 4095),
    "bf16 4096x4096x64": product(4096, 4096, 64),
    "bf16 5000x300x7000": product(5000, 300, 7000),
    "bf16 bmm 4096 of 64^3": batch(4096, 64, 64, 64),
    "bf16 bmm 256 of 32x48x512": batch(256, 32, 48, 512),
    "bf16 bmm 512 of 128^3": batch(512, 128, 128, 128),
    "bf16 bmm 96 of 1024x1024x64, b transposed": batch(96, 1024, 1024, 64, right="t"),
    "bf16 scores 8x12x1024x64": heads(8, 12, 1024, 64),
    "bf16 mv 8192x8192": vector(8192, 8192),
    "bf16 linear 4096x1024 -> 10": linear(4096, 1024, 10),
    "bf16 mv 1024x65536": vector(1024, 65536),
    "f32 linear 1x4096 -> 4096": linear(1, 4096, 4096, "float32"),
    "f32 mv 8192x8192": vector(8192, 8192, "float32"),
    "f32 1024^3": product(1024, 1024, 1024, "float32"),
    "f32 4096^3": product(4096, 4096, 4096, "float32"),
    "f32 linear 128x3136 -> 128": linear(128, 3136, 128, "float32"),
    "f64 2048^3": product(2048, 2048, 2048, "float64"),
}


class Side:
    """One library."""

    def __init__(self, m):
        self.m, self.gpu = m, m.cuda

    def randn(self, *shape, dtype):
        return self.m.randn(*shape, device="cuda").to(getattr(self.m, dtype))

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


def run_case(name, case, sides, rounds):
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
    for key, t in zip(["strata", "torch", *ENTRIES], times, strict=False):
        if t:
            row[key] = statistics.median(t)
    for key, s in zip(["strata", "torch"], sides, strict=False):
        row[f"{key}_eager"] = statistics.median(s.eager_seconds(case) for _ in range(rounds))
    if "torch" in row:
        row["eager_ratio"] = row["torch_eager"] / row["strata_eager"]
        row["ratio"] = row["torch"] / row["strata"]
    row["entry"] = chosen_entry(case)
    return row


def chosen_entry(case):
    """The kernel that runs by itself, with its plan."""
    f = case[2](Side(strata))
    lines = strata.explain(f)
    plan = re.search(r"plan ([^;]*)", lines[-1][2])
    return lines[-1][1] + (f" ({plan[1]})" if plan else "")


def shown(row):
    if "error" in row:
        return f"{row['case']:<44} failed: {row['error'][:200]}"
    text = f"{row['case']:<44} {row['strata'] * 1e6:9.2f} us {row['flops'] / row['strata'] / 1e12:7.1f} TFLOP/s"
    if "ratio" in row:
        text += (
            f"   torch {row['torch'] * 1e6:9.2f} us   {row['ratio']:5.2f}x   eager {row['strata_eager'] * 1e6:8.2f} us"
        )
        text += f" {row['eager_ratio']:5.2f}x"
    text += f"   {row['entry']}"
    text += "".join(f"   {e} {row[e] * 1e6:.2f}" for e in ENTRIES if e in row)
    return text


def markdown(result):
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    lines = [
        f"# Matrix products: {result['device']}",
        "",
        f"{result['date']}; {versions}; `bench/gemm.py`: device time in replayed graphs, cold cache, medians of interleaved rounds.",
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--entries", action="store_true", help="each kernel that is ready, too")
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    if not strata.cuda.is_available():
        print(f"gemm.py: there is no GPU: {strata.cuda.why_not()}", file=sys.stderr)
        return 3
    sides, versions = [Side(strata)], {"strata": strata.__version__, "python": platform.python_version()}
    versions |= {f["name"]: f["version"] for f in strata.cuda.libraries() if f["name"] == "cuBLASLt"}
    try:
        import torch

        sides.append(Side(torch))
        versions["torch"] = torch.__version__
    except ImportError:
        print("PyTorch is not installed: our own figures only")
    if args.entries:
        sides += [Entry(name) for name in ENTRIES]
    result = dict(
        date=datetime.date.today().isoformat(), device=strata.cuda.get_device_name(), versions=versions, rows=[]
    )
    for name, case in CASES.items():
        if not re.search(args.cases, name):
            continue
        try:
            row = run_case(name, case, sides, args.rounds)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as e:
            row = dict(case=name, error=f"{type(e).__name__}: {e}")
        result["rows"].append(row)
        print(shown(row), flush=True)
        for s in sides:
            s.keep = None
            s.gpu.empty_cache()
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gemm.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "gemm.md").write_text(markdown(result))
    print(f"wrote {folder}/gemm.json and gemm.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
