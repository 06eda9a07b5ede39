"""Growth of cost: elements, tape length, live allocations; and two processes side by side.

usage: sweeps.py [--out DIR]

Each sweep gives a slope on log-log axes over its upper half, where the constant part is negligible: 1 is linear. Two training
processes are started together, and their common rate is compared with that of one alone.
"""

import argparse
import functools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import strata

HERE = pathlib.Path(__file__).resolve().parent


def seconds(run, repeat=5):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def slope(points):
    upper = points[len(points) // 2 :]
    x, y = [math.log(p[0]) for p in upper], [math.log(p[1]) for p in upper]
    mx, my = statistics.mean(x), statistics.mean(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)


def element_sweeps():
    sizes = [10**k for k in range(3, 9)]
    cases = {
        "add": lambda x: lambda: x + x,
        "exp": lambda x: x.exp,
        "sum": lambda x: x.sum,
        "softmax": lambda x: functools.partial(strata.softmax, x.view(-1, 500), 1),
        "cumsum": lambda x: lambda: x.cumsum(0),
        "sort": lambda x: x.sort,
        "copy of a transpose": lambda x: x.view(500, -1).t().contiguous,
        "index_select": lambda x: functools.partial(x.index_select, 0, strata.randint(0, x.numel(), (x.numel(),))),
    }
    out = {}
    for name, make in cases.items():
        points = []
        for n in sizes if name not in ("sort", "index_select") else sizes[:-1]:
            run = make(strata.randn(n))
            run()
            points.append((n, seconds(run)))
        out[name] = points
    return out


def tape_sweep():
    points = []
    for n in (100, 1000, 10_000, 100_000, 1_000_000):
        x = strata.ones(1, requires_grad=True)

        def run(n=n, x=x):
            y = x
            for _ in range(n):
                y = y + 1.0
            y.backward()

        points.append((n, seconds(run, 3)))
    return points


def wide_tape_sweep():
    """Many branches that meet in one sum: the engine's frontier grows with them."""
    points = []
    for n in (100, 1000, 10_000, 100_000):
        x = strata.ones(1, requires_grad=True)

        def run(n=n, x=x):
            strata.cat([x * 2.0 for _ in range(n)]).sum().backward()

        points.append((n, seconds(run, 3)))
    return points


def allocation_sweep():
    """A fixed amount of allocating and freeing, with more and more live tensors."""
    points, live = [], []
    for n in (1000, 10_000, 100_000, 1_000_000):
        while len(live) < n:
            live.append(strata.empty(16))

        def run():
            for _ in range(100_000):
                strata.empty(100)

        points.append((n, seconds(run, 3)))
    return points


TRAIN = """
import sys, time, strata
strata.manual_seed(0)
w = [strata.randn(256, 256).mul_(0.05).requires_grad_() for _ in range(4)]
x = strata.randn(128, 256)
def step():
    h = x
    for p in w:
        h = strata.tanh(h @ p)
        p.grad = None
    (h * h).mean().backward()
for _ in range(20): step()
print("ready", flush=True); sys.stdin.readline()
n, end = 0, time.perf_counter() + 3.0
while time.perf_counter() < end: step(); n += 1
print(n / 3.0)
"""


def side_by_side():
    def start():
        p = subprocess.Popen([sys.executable, "-c", TRAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        p.stdout.readline()
        return p

    def rates(count):
        workers = [start() for _ in range(count)]
        for p in workers:
            p.stdin.write("\n")
            p.stdin.flush()
        return [float(p.communicate()[0]) for p in workers]

    alone = statistics.median(rates(1)[0] for _ in range(3))
    together = statistics.median(sum(rates(2)) for _ in range(3))
    return dict(alone_steps_per_s=alone, two_together_steps_per_s=together, share=together / alone)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    sweeps = {f"{name}, elements": points for name, points in element_sweeps().items()}
    sweeps["y = y + 1 and backward, tape length"] = tape_sweep()
    sweeps["cat of branches and backward, branches"] = wide_tape_sweep()
    sweeps["empty(100), live tensors"] = allocation_sweep()
    lines = [
        "# Growth",
        "",
        "Slope on log-log axes over the upper half of each sweep: 1 is linear, 0 is constant.",
        "",
        "| sweep | from | to | slope | time at the end |",
        "|---|---|---|---|---|",
    ]
    for name, points in sweeps.items():
        lines.append(
            f"| {name} | {points[0][0]:.0e} | {points[-1][0]:.0e} | {slope(points):.2f} | {points[-1][1] * 1e3:.2f} ms |"
        )
    pair = side_by_side()
    lines += [
        "",
        f"Two training processes side by side reach together {100 * pair['share']:.0f}% of what one reaches alone ({pair['two_together_steps_per_s']:.0f} and {pair['alone_steps_per_s']:.0f} steps/s).",
    ]
    print("\n".join(lines))
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "growth.md").write_text("\n".join(lines) + "\n")
    (out / "growth.json").write_text(json.dumps(dict(sweeps=sweeps, side_by_side=pair), indent=1) + "\n")


if __name__ == "__main__":
    main()
