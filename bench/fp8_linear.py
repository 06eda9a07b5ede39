"""A training step of one linear layer in float8, bfloat16 and float32: fp8_linear.py [--device cuda] [--sizes 4096] [--rounds 10].

Prints microseconds of forward, backward and the update of the scales, and the TFLOP/s of the three products.
"""

import argparse
import statistics

import strata
from strata import nn
from strata.amp import fp8


def step_of(kind, rows, size, device):
    strata.manual_seed(0)
    layer = (fp8.Linear if kind == "float8" else nn.Linear)(size, size, device=device)
    dtype = strata.float32 if kind == "float32" else strata.bfloat16
    layer.to(dtype)
    x = strata.randn(rows, size, device=device).to(dtype).requires_grad_()
    g = strata.randn(rows, size, device=device).to(dtype)

    def step():
        layer.weight.grad = layer.bias.grad = x.grad = None
        layer(x).backward(g)
        if kind == "float8":
            fp8.update(layer)

    return step


def microseconds(step, gpu, rounds):
    for _ in range(3):
        step()
    times = []
    for _ in range(rounds):
        begin, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        begin.record()
        for _ in range(5):
            step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / 5)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096, 8192])
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    gpu = getattr(strata, options.device)
    print(f"{'size':>6}  {'dtype':<9} {'us':>10} {'TFLOP/s':>9}")
    for size in options.sizes:
        for kind in ("float32", "bfloat16", "float8"):
            us = microseconds(step_of(kind, options.rows, size, options.device), gpu, options.rounds)
            print(f"{size:>6}  {kind:<9} {us:>10.1f} {6 * options.rows * size * size / us / 1e6:>9.2f}")


if __name__ == "__main__":
    main()
