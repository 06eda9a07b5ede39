"""Compares Strata with PyTorch on one GPU: gpu.py [--device cuda] [--cases REGEX] [--rounds 7] [--small] [--out DIR].

Both libraries run in this process and are timed in turn, round by round: a GPU under full load slows down within a tenth of a
second, so the one timed first would win. Kernels are timed by events around many launches; "enqueue" rows are the host's time
for a call that does not wait. Bytes count each input read once and each output written once. Results go to gpu.json and gpu.md.
The rows that begin with C++ come from the program enqueue_bench. Without PyTorch, or on the virtual GPU, only our own results are printed.
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
import time

import strata

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", HERE.parent / "build" / "release"))
CASES = {}


def case(name, floor=None, unit="TB/s"):
    """floor: of our own result if its unit ends in /s, otherwise of the ratio to PyTorch's time."""

    def register(f):
        CASES[name] = dict(make=f, floor=floor, unit=unit)
        return f

    return register


class Side:
    """One library on one device."""

    def __init__(self, m, device):
        self.m, self.device = m, device
        self.gpu = getattr(m, m.device(device).type)

    def randn(self, *shape, dtype=None):
        return self.m.randn(*shape).to(self.device, dtype or self.m.float32)

    def seconds(self, f, count):
        """Time of one call among `count`, on the device."""
        begin, end = self.gpu.Event(enable_timing=True), self.gpu.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    def host_seconds(self, f, batches, count=64):
        """Host time of calls that do not wait: few enough at a time that the queue is never full."""
        taken = []
        for _ in range(batches):
            self.gpu.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                f()
            taken.append((time.perf_counter() - start) / count)
        self.gpu.synchronize()
        return statistics.median(taken)


# --- bound by memory: bytes per call, and the call -------------------------------------------------------------------------
def rows(s, small):
    n = 256 if small else 8192
    return s.randn(n, n, dtype=s.m.bfloat16), 2 * n * n


@case("softmax 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    return 2 * size, lambda: s.m.softmax(x, -1)


@case("layer norm 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    w, b = s.randn(x.shape[1], dtype=x.dtype), s.randn(x.shape[1], dtype=x.dtype)
    return 2 * size, lambda: s.m.nn.functional.layer_norm(x, (x.shape[1],), w, b)


@case("sum of all 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    return size, lambda: x.sum()


@case("sum of columns 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    return size, lambda: x.sum(0)


@case("transpose 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    return 2 * size, lambda: x.t().contiguous()


@case("multiply by a number 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    return 2 * size, lambda: x * 1.5


@case("add 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    y = x * 0.5
    return 3 * size, lambda: x + y


@case("GELU 8192x8192 bf16", 3.4)
def _(s, small):
    x, size = rows(s, small)
    return 2 * size, lambda: s.m.nn.functional.gelu(x)


@case("AdamW fused, 134M parameters f32", 3.4)
def _(s, small):
    n = 1 << (16 if small else 27)
    p = s.randn(n).requires_grad_()
    p.grad = s.randn(n)
    step = s.m.optim.AdamW([p], lr=1e-3, fused=True).step
    return 7 * 4 * n, step


@case("copy 1 GiB", None)
def _(s, small):
    x = s.m.zeros(1 << (16 if small else 28)).to(s.device)
    y = s.m.empty_like(x)
    return 2 * 4 * x.numel(), lambda: y.copy_(x)


# --- overheads -------------------------------------------------------------------------------------------------------------
@case("enqueue of an add of 16 elements", 3.0, "us")
def _(s, small):
    x, y = s.randn(16), s.randn(16)
    return None, lambda: x + y


@case("empty(1000)", 0.6, "us")
def _(s, small):
    device = s.m.device(s.device)
    return None, lambda: s.m.empty(1000, device=device)


# --- the small CNN ---------------------------------------------------------------------------------------------------------
def small_cnn(s, batch, capturable=False):
    m, f = s.m, s.m.nn.functional
    m.manual_seed(0)
    x, target = s.randn(batch, 1, 28, 28), m.randint(0, 10, (batch,)).to(s.device)

    def parameter(*shape, scale):
        return (m.randn(*shape) * scale).to(s.device).requires_grad_()

    c1, b1 = parameter(32, 1, 3, 3, scale=1 / 3), parameter(32, scale=0.3)
    c2, b2 = parameter(64, 32, 3, 3, scale=1 / 17), parameter(64, scale=0.06)
    w1, d1 = parameter(128, 3136, scale=1 / 56), parameter(128, scale=1 / 56)
    w2, d2 = parameter(10, 128, scale=0.09), parameter(10, scale=0.09)
    parameters = [c1, b1, c2, b2, w1, d1, w2, d2]
    optimizer = m.optim.Adam(parameters, lr=1e-4, fused=True, **({"capturable": True} if capturable else {}))

    def step():
        optimizer.zero_grad(set_to_none=True)
        h = f.max_pool2d(f.relu(f.conv2d(x, c1, b1, padding=1)), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, c2, b2, padding=1)), 2)
        loss = f.cross_entropy(f.linear(f.relu(f.linear(h.flatten(1), w1, d1)), w2, d2), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@case("small CNN train step, batch 128, eager", 2.0, "ms")
def _(s, small):
    return None, small_cnn(s, 4 if small else 128)


@case("small CNN train step, batch 128, graph", 1.5, "ms")
def _(s, small):
    step = small_cnn(s, 4 if small else 128, capturable=True)
    side = s.gpu.Stream()
    side.wait_stream(s.gpu.current_stream())
    with s.gpu.stream(side):
        for _ in range(3):
            step()
    s.gpu.synchronize()
    graph = s.gpu.CUDAGraph()
    with s.gpu.graph(graph):
        step()
    return None, graph.replay


def timed(side, made, unit, small):
    """Repeats for about 20 ms and returns one result."""
    _, f = made
    if unit == "us":
        return side.host_seconds(f, 1 if small else 25)
    once = side.seconds(f, 1)
    return side.seconds(f, 2 if small else max(3, min(2000, int(0.02 / max(once, 1e-6)))))


def run_case(name, c, sides, args):
    made = [c["make"](s, args.small) for s in sides]
    times = [[] for _ in sides]
    for _ in range(args.rounds):
        for s, m, t in zip(sides, made, times, strict=True):
            t.append(timed(s, m, c["unit"], args.small))
            time.sleep(0 if args.small else 0.05)
    ours, *theirs = [statistics.median(t) for t in times]
    row = dict(case=name, unit=c["unit"], seconds=ours, floor=c["floor"])
    size = made[0][0]
    row["strata"] = size / ours / 1e12 if size else ours * {"us": 1e6, "ms": 1e3}[c["unit"]]
    if theirs:
        row["torch"] = size / theirs[0] / 1e12 if size else theirs[0] * {"us": 1e6, "ms": 1e3}[c["unit"]]
        row["ratio"] = theirs[0] / ours
    if c["floor"]:
        row["holds"] = {"TB/s": row["strata"] >= c["floor"], "us": row["strata"] <= c["floor"]}.get(
            c["unit"], row.get("ratio", 0) >= c["floor"]
        )
    return row


def cpp_rows(args):
    """Host cost of calls from C++, for the selected cases."""
    program = BUILD / "bin" / "enqueue_bench"
    if not program.exists():
        print(f"{program} is not built: no rows from C++")
        return []
    small = ["--small"] if args.small else []
    done = subprocess.run([program, "--device", args.device, *small], capture_output=True, text=True)
    if done.returncode:
        return [dict(case="C++", error=done.stderr or f"status {done.returncode}")]
    return [row for row in json.loads(done.stdout) if re.search(args.cases, row["case"])]


def shown(row):
    if "error" in row:
        return f"{row['case']:<42} failed: {row['error'].splitlines()[0][:150]}"
    text = f"{row['case']:<42} {row['strata']:9.3f} {row['unit']}"
    if "ratio" in row:
        text += f"   torch {row['torch']:9.3f}   {row['ratio']:6.2f}x"
    if row["floor"]:
        text += f"   floor {row['floor']}{'' if row['holds'] else '   BELOW'}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="sizes for the virtual GPU: shows that the cases run")
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    module = getattr(strata, strata.device(args.device).type)
    if not module.is_available():
        print(f"gpu.py: {args.device} is not available: {module.why_not()}", file=sys.stderr)
        return 3
    sides, versions = [Side(strata, args.device)], {"strata": strata.__version__, "python": platform.python_version()}
    if args.device.startswith("cuda"):
        try:
            import torch

            sides.append(Side(torch, args.device))
            versions["torch"] = torch.__version__
        except ImportError:
            print("PyTorch is not installed: our own figures only")
    result = dict(
        date=datetime.date.today().isoformat(),
        device=module.get_device_name(),
        versions=versions,
        rows=[],
        sizes="small" if args.small else "full",
    )
    for name, c in CASES.items():
        if not re.search(args.cases, name):
            continue
        try:
            row = run_case(name, c, sides, args)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as e:
            row = dict(case=name, error=f"{type(e).__name__}: {e}")
        result["rows"].append(row)
        print(shown(row), flush=True)
        for s in sides:
            s.gpu.empty_cache()
    for row in cpp_rows(args):
        result["rows"].append(row)
        print(shown(row), flush=True)
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "gpu.md").write_text(markdown(result))
    print(f"wrote {folder}/gpu.json and gpu.md")
    return 0


def markdown(result):
    lines = [
        f"# GPU: {result['device']}",
        "",
        f"{result['date']}; "
        + ", ".join(f"{k} {v}" for k, v in result["versions"].items())
        + "; `bench/gpu.py`, medians of interleaved rounds.",
        "",
        "| case | Strata | PyTorch | ratio | floor |",
        "|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        if "error" in r:
            lines.append(f"| {r['case']} | failed: {r['error'].splitlines()[0]} | | | |")
            continue
        torch = f"{r['torch']:.3f} {r['unit']} | {r['ratio']:.2f}x" if "ratio" in r else "| "
        floor = f"{r['floor']}{'' if r['holds'] else ', missed'}" if r["floor"] else ""
        lines.append(f"| {r['case']} | {r['strata']:.3f} {r['unit']} | {torch} | {floor} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
