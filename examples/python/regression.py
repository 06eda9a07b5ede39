"""Fits a small network to a noisy curve with autograd alone: the loss falls, then a few speeds of this machine."""

import math
import time

import strata

strata.manual_seed(0)
x = strata.linspace(-3, 3, 512).unsqueeze(1)
y = strata.sin(2 * x) + 0.3 * x + 0.05 * strata.randn(512, 1)

hidden = 64
w1 = (strata.randn(1, hidden) * 2).requires_grad_()
b1 = strata.randn(hidden).requires_grad_()
w2 = (strata.randn(hidden, 1) / math.sqrt(hidden)).requires_grad_()
b2 = strata.zeros(1, requires_grad=True)
parameters = [w1, b1, w2, b2]
moments = [(strata.zeros_like(p), strata.zeros_like(p)) for p in parameters]

print("Fitting y = sin(2x) + 0.3x with a network of one hidden layer (64 units, tanh), Adam:")
began = time.perf_counter()
steps = 800
for step in range(1, steps + 1):
    loss = ((strata.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()
    for p in parameters:
        p.grad = None
    loss.backward()
    with strata.no_grad():
        for p, (m, v) in zip(parameters, moments, strict=True):
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            p.addcdiv_(m / (1 - 0.9**step), (v / (1 - 0.999**step)).sqrt().add_(1e-8), value=-0.02)
    if step == 1 or step % 100 == 0:
        bar = "#" * int(30 + 8 * math.log10(max(loss.item(), 1e-4)))
        print(f"  step {step:4}  loss {loss.item():9.5f}  {bar}")
elapsed = time.perf_counter() - began
print(f"  {steps} steps in {elapsed:.2f} s ({steps / elapsed:.0f} steps/s)\n")


def speed(label, run, work, unit, repeat=7):
    run()
    best = min(_timed(run) for _ in range(repeat))
    print(f"  {label:34} {work / best:10.1f} {unit}")


def _timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


a = strata.randn(1024, 1024)
big = strata.randn(4096, 4096)
small = strata.randn(16)
print(f"Speed on this machine ({strata.get_num_threads()} threads):")
speed("matrix product 1024 x 1024", lambda: a @ a, 2 * 1024**3 / 1e9, "GFLOP/s")
speed("exp of 64 MB", lambda: big.exp(), 2 * big.nbytes / 1e9, "GB/s")
speed("softmax of 64 MB", lambda: big.softmax(1), 2 * big.nbytes / 1e9, "GB/s")
speed("sum of 64 MB", lambda: big.sum(), big.nbytes / 1e9, "GB/s")
speed("small adds (16 elements)", lambda: [small + small for _ in range(10000)], 10000 / 1e6, "million/s")
print("\nNext: `make test`, `strata explain softmax`, docs/usage/tour.md")
