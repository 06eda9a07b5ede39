"""strata.compile() on the CPU: beside Strata without it, PyTorch, and torch.compile, in one process and in turns.

usage: compile.py [--rounds N] [--threads N] [--out FOLDER]

Writes compile.json and compile.md. Without PyTorch only Strata is timed. A case is written once and runs with either library.
"""

import argparse
import datetime
import json
import pathlib
import platform
import statistics
import time

import strata

try:
    import torch
except ImportError:
    torch = None

CASES = {}


def case(text):
    def keep(make):
        CASES[text] = make
        return make

    return keep


@case("gelu(x * 1.5 + 0.3) * x, 64 MB")
def chain(m):
    x = m.randn(4096, 4096)
    return lambda: m.nn.functional.gelu(x * 1.5 + 0.3) * x


@case("the same, forward and backward, 16 MB")
def chain_backward(m):
    x = m.randn(2048, 2048, requires_grad=True)

    def step():
        x.grad = None
        (m.nn.functional.gelu(x * 1.5 + 0.3) * x).sum().backward()
        return x.grad

    return step


@case("twelve multiplications and additions, 64 MB")
def long_chain(m):
    x = m.randn(4096, 4096)

    def polynomial():
        y = x
        for k in range(6):
            y = y * x + 0.1 * k
        return y

    return polynomial


@case("AdamW written with tensors, 4M parameters")
def adamw(m):
    p, g, a, b = (m.randn(4 << 20) for _ in range(4))
    b.abs_()

    def step():
        with m.no_grad():
            p.mul_(1 - 0.01 * 0.001)
            a.mul_(0.9).add_(g * 0.1)
            b.mul_(0.999).add_(g * g * 0.001)
            p.sub_(0.001 * (a / 0.1) / ((b / 0.001).sqrt() + 1e-8))
        return p

    return step


@case("RMS norm written with tensors, 8192x1024")
def rms_norm(m):
    x, w = m.randn(8192, 1024), m.randn(1024)
    return lambda: x * m.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


@case("silu(a) * b + bias, bfloat16, 8192x2048")
def gated(m):
    a, b = (m.randn(8192, 2048).to(m.bfloat16) for _ in range(2))
    bias = m.randn(2048).to(m.bfloat16)
    return lambda: m.nn.functional.silu(a) * b + bias


@case("layer norm(x + dropout(r)), 8192x768, forward and backward")
def residual(m):
    x, r = m.randn(8192, 768, requires_grad=True), m.randn(8192, 768, requires_grad=True)
    w, b = m.ones(768, requires_grad=True), m.zeros(768, requires_grad=True)
    f = m.nn.functional

    def step():
        for t in (x, r, w, b):
            t.grad = None
        f.layer_norm(x + f.dropout(r, 0.1), (768,), w, b).sum().backward()
        return x.grad

    return step


@case("cross-entropy and its gradient, 512x50304")
def loss(m):
    x, target = m.randn(512, 50304, requires_grad=True), m.arange(512) * 97

    def step():
        x.grad = None
        m.nn.functional.cross_entropy(x, target).backward()
        return x.grad

    return step


def small_cnn(batch):
    def make(m):
        nn = m.nn
        net = nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10)),
        )
        optimizer = m.optim.Adam(net.parameters(), lr=1e-3)
        x, target = m.randn(batch, 1, 28, 28), m.arange(batch) % 10

        def step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), target).backward()
            optimizer.step()

        return step

    return make


for size in (128, 1):
    CASES[f"training step of a small CNN, batch of {size}"] = small_cnn(size)


def contenders(make):
    calls = {"strata": make(strata), "strata.compile": strata.compile(make(strata))}
    if torch:
        calls["torch"] = make(torch)
        calls["torch.compile"] = torch.compile(make(torch))
    return calls


def milliseconds(calls, rounds):
    """{name: median over the rounds}; all run once per round, so that other work on the machine slows all."""
    for f in calls.values():
        f()
        f()
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, f in calls.items():
            start = time.perf_counter()
            f()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def table(rows, threads):
    names = list(next(iter(rows.values())))
    text = [
        "# Compiled functions on the CPU",
        "",
        f"`bench/compile.py`, {datetime.date.today()}, {platform.processor() or platform.machine()}, {threads} threads; strata "
        f"{strata.__version__}"
        + (f", PyTorch {torch.__version__}" if torch else "")
        + ". Medians in ms of calls in turns, while other jobs may use the machine too; ratios above 1: strata.compile is "
        "faster.",
        "",
        "| case | " + " | ".join(names) + " | beside strata |" + (" beside torch.compile |" if torch else ""),
        "|---|" + "---:|" * (len(names) + 1 + bool(torch)),
    ]
    for label, times in rows.items():
        own = times["strata.compile"]
        cells = [f"{times[name]:.2f}" for name in names] + [f"{times['strata'] / own:.2f}x"]
        cells += [f"{times['torch.compile'] / own:.2f}x"] if torch else []
        text.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "results")
    options = parser.parse_args()
    strata.set_num_threads(options.threads)
    if torch:
        torch.set_num_threads(options.threads)
    rows = {}
    for label, make in CASES.items():
        rows[label] = milliseconds(contenders(make), options.rounds)
        print(label, {name: round(t, 2) for name, t in rows[label].items()}, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "compile.json").write_text(json.dumps(rows, indent=1) + "\n")
    (options.out / "compile.md").write_text(table(rows, options.threads))


if __name__ == "__main__":
    main()
