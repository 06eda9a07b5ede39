"""Compares every public op of the registry with PyTorch: forward, and forward with backward.

usage: every_op.py [--sizes 16,10000,1000000] [--dtypes float32,bfloat16,int64] [--layouts contiguous,transposed]
                   [--threads 2] [--only REGEX] [--out FILE.json]

The ops come from the registry and their arguments from the samples of their records (op_cases.py), so a new op is measured
without being listed. Both libraries run in this process in turns; a ratio above 1 means that Strata is faster.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import numpy as np
import op_cases
import strata
import torch

ROUNDS = 5
LEAST_SECONDS = 2e-3  # of a round
MOST_SECONDS = 1.5  # a call that would take longer is left out
RANGES = {"f": (-3, 3), "p": (0.1, 3), "u": (-0.95, 0.95), "o": (1.1, 3), "z": (0.05, 0.95)}


def resolve(library, name):
    """The function named "linalg.det" or, if there is none, the method of Tensor."""
    value = library
    try:
        for part in name.split("."):
            value = getattr(value, part)
        return value
    except AttributeError:
        return getattr(library.Tensor, name)


class Inputs:
    """The same numbers for both libraries."""

    def __init__(self, dtype, layout, seed):
        self.dtype, self.layout, self.random = dtype, layout, np.random.default_rng(seed)
        self.made = []

    def numbers(self, letter, shape):
        if letter == "b":
            return self.random.random(shape) > 0.5
        if letter[0] == "i":
            return self.random.integers(0, int(letter[1:]), shape)
        if letter in "sm":
            square = self.random.standard_normal(shape).astype(np.float32)
            eye = np.eye(shape[-1], dtype=np.float32) * shape[-1]
            return (square @ square.swapaxes(-1, -2) if letter == "s" else square) + eye
        low, high = RANGES[letter]
        values = self.random.random(shape, dtype=np.float32) * (high - low) + low
        return values if self.dtype.startswith(("float", "bfloat")) else np.ceil(values).astype(np.int64)

    def make(self, library, letter, shape):
        if library is strata:
            self.made.append(self.numbers(letter, shape))
            numbers = self.made[-1]
        else:
            numbers = self.made.pop(0)
        t = library.from_numpy(np.ascontiguousarray(numbers))
        if letter not in "b" and letter[0] != "i":
            t = t.to(getattr(library, self.dtype))
        if self.layout == "transposed" and t.ndim >= 2:
            t = t.transpose(-1, -2).contiguous().transpose(-1, -2)
        return t


def first_float(result):
    if isinstance(result, (strata.Tensor, torch.Tensor)):
        return result if result.dtype.is_floating_point else None
    for r in result if isinstance(result, (tuple, list)) else ():
        found = first_float(r)
        if found is not None:
            return found
    return None


def leaves(args, kwargs):
    for a in [*args, *kwargs.values()]:
        for t in a if isinstance(a, list) else [a]:
            if isinstance(t, (strata.Tensor, torch.Tensor)) and t.dtype.is_floating_point:
                yield t


def calls(case, inputs):
    """{library: (forward, backward or None)}; raises what the ops raise."""
    out = {}
    for library in (strata, torch):
        args, kwargs = case.arguments(lambda letter, shape, library=library: inputs.make(library, letter, shape))
        function = resolve(library, case.name)

        def forward(function=function, args=args, kwargs=kwargs):
            return function(*args, **kwargs)

        forward()
        backward = None
        if inputs.dtype.startswith(("float", "bfloat")):
            for t in leaves(args, kwargs):
                t.requires_grad_()
            y = first_float(forward())
            if y is not None and y.requires_grad:
                g = library.ones_like(y).detach()

                roots = tuple(leaves(args, kwargs))

                def backward(forward=forward, g=g, roots=roots):
                    first_float(forward()).backward(g)
                    for r in roots:
                        r.grad = None

                backward()
            for t in leaves(args, kwargs):
                t.requires_grad_(False)
        out[library] = forward, backward, tuple(leaves(args, kwargs))
    return out


def once(run, count):
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def compare(ours, theirs):
    """Seconds of one call of each, measured in turns; None: too slow to measure."""
    first = max(once(ours, 1), once(theirs, 1))
    if first > MOST_SECONDS:
        return None
    counts = [max(1, math.ceil(LEAST_SECONDS / max(once(run, 1), 1e-8))) for run in (ours, theirs)]
    counts = [
        max(1, math.ceil(LEAST_SECONDS / max(once(run, c), 1e-8)))
        for run, c in zip((ours, theirs), counts, strict=True)
    ]
    times = ([], [])
    for _ in range(ROUNDS):
        for run, count, list_ in zip((ours, theirs), counts, times, strict=True):
            list_.append(once(run, count))
    return statistics.median(times[0]), statistics.median(times[1])


def measure(case, dtype):
    inputs = Inputs(dtype, case.layout, seed=case.n)
    both = calls(case, inputs)
    rows = []
    for k, phase in enumerate(("forward", "train")):
        ours, theirs = both[strata][k], both[torch][k]
        if ours is None or theirs is None:
            continue
        for library in (strata, torch):
            for t in both[library][2]:
                t.requires_grad_(phase == "train")
        times = compare(ours, theirs)
        if times:
            rows.append(
                dict(op=case.name, text=case.text, n=case.n, layout=case.layout, dtype=dtype, phase=phase,
                     us=times[0] * 1e6, torch_us=times[1] * 1e6, ratio=times[1] / times[0])
            )  # fmt: skip
    return rows


def mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r in ratios)) if ratios else float("nan")


def report(rows, floor=0.9, shown=40):
    for phase in ("forward", "train"):
        for n in sorted({r["n"] for r in rows}):
            some = [r["ratio"] for r in rows if r["phase"] == phase and r["n"] == n]
            below = sum(r < floor for r in some)
            print(f"{phase:8} n={n:<9} {len(some):4} cases  geometric mean {mean(some):6.2f}x  below {floor}x: {below}")
    worst = sorted((r for r in rows if r["ratio"] < floor), key=lambda r: r["ratio"])
    print(f"\nthe {min(shown, len(worst))} slowest of {len(worst)} below {floor}x")
    for r in worst[:shown]:
        print(
            f"  {r['ratio']:5.2f}x {r['us']:10.1f} us  {r['phase']:8} {r['dtype']:9} {r['layout']:11} {r['op']}({r['text']})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="16,10000,1000000")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--layouts", default="contiguous")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression that names of ops must match")
    parser.add_argument("--out", help="a JSON file for all rows")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    strata.set_num_threads(options.threads)
    rows, failed = [], {}
    for (name, overload), sample in op_cases.samples().items():
        if not re.search(options.only, name):
            continue
        for dtype in options.dtypes.split(","):
            for layout in options.layouts.split(","):
                for n in map(int, options.sizes.split(",")):
                    case = op_cases.Case(name, sample, n, layout)
                    try:
                        rows += measure(case, dtype)
                    except Exception as error:  # one of the two does not support it in this form
                        failed.setdefault(
                            f"{name}.{overload}" if overload else name, f"{type(error).__name__}: {error}"[:160]
                        )
    report(rows)
    print(f"\n{len(failed)} ops could not be measured beside PyTorch")
    if options.out:
        facts = dict(torch=torch.__version__, strata=strata.__version__, threads=options.threads)
        pathlib.Path(options.out).write_text(json.dumps(dict(facts=facts, rows=rows, not_measured=failed), indent=1))


if __name__ == "__main__":
    main()
