"""strata.compile() on one GPU beside PyTorch: gpu_compile.py [--device cuda] [--only REGEX] [--rounds 7] [--small] [--out DIR].

Device time by events around many calls, in interleaved rounds (see gpu.py), and the host's time of a call of two small ops. Bytes
count each tensor that the whole case must read or write once. Results go to gpu_compile.json and gpu_compile.md. Without PyTorch,
or on the virtual GPU, only our own results are printed; --small runs tiny sizes.
"""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import sys
import time

import gpu
import strata

CASES = {}


def case(name, floor=None):
    """floor: of the ratio beside torch.compile."""

    def register(f):
        CASES[name] = dict(make=f, floor=floor)
        return f

    return register


@case("gelu(x * 1.5 + 0.3) * x, 8192x8192 bf16", 1.3)
def _(s, n):
    x = s.randn(n, n, dtype=s.m.bfloat16)
    return 4 * n * n, lambda: s.m.nn.functional.gelu(x * 1.5 + 0.3) * x


@case("gelu(x * 1.5 + 0.3) * x, 8192x8192 f32")
def _(s, n):
    x = s.randn(n, n)
    return 8 * n * n, lambda: s.m.nn.functional.gelu(x * 1.5 + 0.3) * x


@case("the bf16 chain, forward and backward")
def _(s, n):
    x = s.randn(n, n, dtype=s.m.bfloat16).requires_grad_()
    g = s.randn(n, n, dtype=s.m.bfloat16)

    def step():
        y = s.m.nn.functional.gelu(x * 1.5 + 0.3) * x
        return s.m.autograd.grad(y, x, g)[0]

    return 6 * n * n, step


@case("twelve multiplications and additions, 8192x8192 f32")
def _(s, n):
    x = s.randn(n, n)

    def polynomial():
        y = x
        for k in range(6):
            y = y * x + 0.1 * k
        return y

    return 8 * n * n, polynomial


@case("silu(a) * b + bias, 8192x8192 bf16")
def _(s, n):
    a, b, bias = (s.randn(*shape, dtype=s.m.bfloat16) for shape in ((n, n), (n, n), (n,)))
    return 6 * n * n, lambda: s.m.nn.functional.silu(a) * b + bias


@case("where(x > 0, x * column, exp(x)), 8192x8192 f32")
def _(s, n):
    x, column = s.randn(n, n), s.randn(n, 1)
    return 8 * n * n, lambda: s.m.where(x > 0, x * column, s.m.exp(x))


@case("AdamW written with tensors, 64M parameters")
def _(s, n):
    p, g, a, b = (s.randn(n * n) for _ in range(4))
    b.abs_()

    def step():
        with s.m.no_grad():
            p.mul_(1 - 0.01 * 0.001)
            a.mul_(0.9).add_(g * 0.1)
            b.mul_(0.999).add_(g * g * 0.001)
            p.sub_(0.001 * (a / 0.1) / ((b / 0.001).sqrt() + 1e-8))
        return p

    return 28 * n * n, step


@case("RMS norm written with tensors, 8192x8192 bf16")
def _(s, n):
    x, w = s.randn(n, n, dtype=s.m.bfloat16), s.randn(n, dtype=s.m.bfloat16)
    return 4 * n * n, lambda: x * s.m.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


@case("RMS norm, 8192x8192 bf16")
def _(s, n):
    x, w = s.randn(n, n, dtype=s.m.bfloat16), s.randn(n, dtype=s.m.bfloat16)
    return 4 * n * n, lambda: s.m.nn.functional.rms_norm(x * 1.5, (n,), w)


@case("gelu(layer norm), 8192x8192 bf16")
def _(s, n):
    x, w, b = (s.randn(*shape, dtype=s.m.bfloat16) for shape in ((n, n), (n,), (n,)))
    return 4 * n * n, lambda: s.m.nn.functional.gelu(s.m.nn.functional.layer_norm(x, (n,), w, b))


@case("softmax(x * scale + mask), 65536x1024 bf16")
def _(s, n):
    x, mask = s.randn(n // 2, 16, 1024, dtype=s.m.bfloat16), s.randn(16, 1024, dtype=s.m.bfloat16)
    return 4 * x.numel(), lambda: s.m.nn.functional.softmax(x * 0.125 + mask, -1)


@case("layer norm(x + dropout(r)), 32768x768 bf16, forward and backward", 1.6)
def _(s, n):
    rows = 4 * n
    x, r, g = (s.randn(rows, 768, dtype=s.m.bfloat16) for _ in range(3))
    leaves = [t.requires_grad_() for t in (x, r, s.randn(768, dtype=s.m.bfloat16), s.randn(768, dtype=s.m.bfloat16))]

    def step():
        f = s.m.nn.functional
        y = f.layer_norm(leaves[0] + f.dropout(leaves[1], 0.1), (768,), leaves[2], leaves[3])
        return (y, *s.m.autograd.grad(y, leaves, g))

    return 2 * 6 * rows * 768, step


@case("cross entropy and its gradient, 8192x50304 bf16", 2)
def _(s, n):
    x = s.randn(n, 50304, dtype=s.m.bfloat16).requires_grad_()
    target = (s.randn(n).abs() * 1000).long()

    def step():
        loss = s.m.nn.functional.cross_entropy(x, target)
        return loss, s.m.autograd.grad(loss, x)[0]

    return 4 * n * 50304, step


def contenders(make, ours, theirs, n):
    calls = {"strata": (ours, make(ours, n))}
    calls["strata.compile"] = (ours, strata.compile(make(ours, n)[1]))
    if theirs:
        import torch

        calls["torch"] = (theirs, make(theirs, n)[1])
        calls["torch.compile"] = (theirs, torch.compile(make(theirs, n)[1]))
    size, calls["strata"] = calls["strata"][1][0], (ours, calls["strata"][1][1])
    return size, calls


def measure(make, ours, theirs, n, rounds, budget=0.02):
    size, calls = contenders(make, ours, theirs, n)
    cold, count = {}, {}
    for name, (side, f) in calls.items():
        start = time.perf_counter()
        f()
        side.gpu.synchronize()
        cold[name] = time.perf_counter() - start
        f()
        count[name] = max(1, min(200, int(budget / side.seconds(f, 2))))
    taken = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (side, f) in calls.items():
            taken[name].append(side.seconds(f, count[name]))
    return dict(bytes=size, seconds={name: statistics.median(t) for name, t in taken.items()}, cold=cold)


def host_time(ours, theirs):
    """Microseconds of a call of two ops on 16 elements, until the host may go on."""
    import types

    def make(s, n):
        x = s.randn(n)
        return 0, lambda: (x + 1) * 2

    _, calls = contenders(make, ours, theirs, 16)
    for _, f in calls.values():
        f()
        f()
    return types.SimpleNamespace(us={name: side.host_seconds(f, 15) * 1e6 for name, (side, f) in calls.items()})


def table(rows, host, machine):
    names = list(host.us)
    text = [
        f"# Compiled functions on a GPU: {machine}",
        "",
        f"{datetime.date.today()}; strata {strata.__version__}"
        + (f", torch {sys.modules['torch'].__version__}" if "torch" in sys.modules else "")
        + "; `bench/gpu_compile.py`: device time in microseconds, medians of interleaved rounds. First call: compilation and one run,"
        " without caches on disk.",
        "",
        "| case | "
        + " | ".join(names)
        + " | TB/s | beside strata | beside torch.compile | floor | first call, s | torch's |",
        "|---|" + "---:|" * (len(names) + 6),
    ]
    for label, r in rows.items():
        t = r["seconds"]
        own, peer = t["strata.compile"], t.get("torch.compile")
        cells = [f"{t[name] * 1e6:.1f}" for name in names] + [
            f"{r['bytes'] / own / 1e12:.2f}",
            f"{t['strata'] / own:.2f}x",
        ]
        cells += [f"{peer / own:.2f}x" if peer else "", f"{r['floor']}" if r["floor"] else ""]
        cells += [f"{r['cold']['strata.compile']:.2f}", f"{r['cold']['torch.compile']:.2f}" if peer else ""]
        text.append(f"| {label} | " + " | ".join(cells) + " |")
    text += [
        "",
        "Host time of a call, (x + 1) * 2 with 16 elements: "
        + ", ".join(f"{k} {v:.1f} us" for k, v in host.us.items()),
    ]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default="", help="cases whose name this regular expression finds")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "results")
    options = parser.parse_args()
    ours, theirs = gpu.Side(strata, options.device), None
    if options.device == "cuda":
        try:
            import torch

            theirs = gpu.Side(torch, options.device)
        except ImportError:
            print("PyTorch is not installed: only our own results")
    rows = {}
    for label, c in CASES.items():
        if not re.search(options.only, label):
            continue
        rows[label] = measure(c["make"], ours, theirs, 64 if options.small else 8192, options.rounds) | dict(
            floor=c["floor"]
        )
        print(label, {name: round(t * 1e6, 1) for name, t in rows[label]["seconds"].items()}, flush=True)
    host = host_time(ours, theirs)
    machine = strata.cuda.get_device_properties().name if options.device == "cuda" else options.device
    text = table(rows, host, machine)
    print(text)
    if options.device == "cuda" and not options.only:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_compile.json").write_text(json.dumps(dict(rows=rows, host=host.us), indent=1) + "\n")
        (options.out / "gpu_compile.md").write_text(text)


if __name__ == "__main__":
    main()
