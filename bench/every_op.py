"""Compares every public op of the registry with PyTorch: forward, and forward with backward.

usage: every_op.py [--sizes 16,10000,1000000] [--dtypes float32,bfloat16,int64] [--threads 1,4,16] [--only REGEX]
                   [--layouts contiguous,transposed,broadcast] [--shard K/N] [--seconds N] [--again FILE.json...]
                   [--missing FILE.json...] [--cpu-time] [--out FILE.json] [--markdown FILE.md]
       every_op.py --merge FILE.json... [--out FILE.json] [--markdown FILE.md]

The ops come from the registry and their arguments from the samples of their records (op_cases.py), so a new op is measured
without being listed. Both libraries run in this process in turns; with several threads there is a rest between the turns,
because threads poll for work for a while after their last task and would take cores from the other library. A ratio above 1
means that Strata is faster. Results of the two that differ are listed: such a row may compare different work. So does one
where PyTorch returns the caller's gradient itself as that of a leaf (a second backward pass then adds to the caller's
tensor); Strata copies it. Cases are measured in a shuffled but fixed order, so that a run cut short by --seconds is a fair
sample; --shard 2/4 measures the second quarter of them. With --out, rows are written as they are measured. Of rows that
several files of --merge have, the last counts, so a second measurement of slow rows (--again) replaces the first.
"""

import argparse
import json
import math
import pathlib
import platform
import random
import re
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import numpy as np
import op_cases
import op_report
import strata
import torch

ROUNDS = 5
LEAST_SECONDS = 2e-3  # of a round
# Before a round with several threads: the threads of the other library poll for work that long.
REST_SECONDS = 0.03  # the same for both: processors that have rested are slower at first
MOST_SECONDS = 1.5  # a call that would take longer is left out
ENOUGH_SECONDS = 3  # of all rounds: then three are enough
SAVE_SECONDS = 5  # between two writes of the rows so far
SMALL, STEP = 256, 64  # a case is tried with this many elements first, then with this fraction of its size
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
        t = library.from_numpy(np.ascontiguousarray(numbers)).clone()  # memory of the library, which aligns it
        if letter not in "b" and letter[0] != "i":
            t = t.to(getattr(library, self.dtype))
        if self.layout == "transposed" and t.ndim >= 2:
            t = t.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "broadcast" and t.ndim >= 2:  # one row, repeated without a copy
            t = t[:1].contiguous().expand(*shape)
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


def for_torch(name, args, kwargs):
    """The same call in PyTorch's form."""
    if name in ("block_diag", "broadcast_tensors", "cartesian_prod", "chain_matmul"):
        args = [*args[0], *args[1:]]
    if "memory_format" in kwargs:
        kwargs["memory_format"] = getattr(torch, kwargs["memory_format"])
    return args, kwargs


def differ(ours, theirs):
    """What is different about two results, or "". Values are compared loosely: precision has its own tests."""
    if isinstance(ours, (tuple, list)) and isinstance(theirs, (tuple, list)):
        return next(filter(None, (differ(a, b) for a, b in zip(ours, theirs, strict=False))), "")
    if not isinstance(ours, strata.Tensor) or not isinstance(theirs, torch.Tensor):
        return ""
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"shapes {tuple(ours.shape)} and {tuple(theirs.shape)}"
    a, b = ours.detach().double().numpy(), theirs.detach().double().numpy()
    scale = np.abs(b[np.isfinite(b)]).max(initial=1e-3)
    return "" if np.allclose(a, b, rtol=1e-2, atol=2e-2 * scale, equal_nan=True) else "values"


def training_step(library, forward, roots):
    """A function that runs forward and backward, or None if there is no gradient."""
    for t in roots:
        t.requires_grad_()
    try:
        y = first_float(forward())
        if y is None or not y.requires_grad:
            return None
        g = library.ones_like(y).detach()
        y.backward(g)
        shared = any(r.grad is not None and r.grad.data_ptr() == g.data_ptr() for r in roots)

        def step():
            first_float(forward()).backward(g)
            for r in roots:
                r.grad = None

        step()
        step.shared = shared
        return step
    except (RuntimeError, NotImplementedError):
        return None
    finally:
        for t in roots:
            t.requires_grad_(False)


def calls(case, inputs):
    """{library: (forward, backward or None, leaves)}, and what is different; raises what the ops raise."""
    out, results = {}, {}
    for library in (strata, torch):
        args, kwargs = case.arguments(lambda letter, shape, library=library: inputs.make(library, letter, shape))
        function = resolve(library, case.name)
        if library is torch:
            args, kwargs = for_torch(case.name, args, kwargs)

        def forward(function=function, args=args, kwargs=kwargs):
            return function(*args, **kwargs)

        results[library] = forward()
        backward = None
        if inputs.dtype.startswith(("float", "bfloat")):
            backward = training_step(library, forward, tuple(leaves(args, kwargs)))
        out[library] = forward, backward, tuple(leaves(args, kwargs))
    return out, differ(results[strata], results[torch])


clock = time.perf_counter


def once(run, count):
    begin = clock()
    for _ in range(count):
        run()
    return (clock() - begin) / count


def compare(ours, theirs, threads):
    """Seconds of one call of each, measured in turns; None: too slow to measure."""
    runs = {strata: ours, torch: theirs}
    if max(once(run, 1) for run in runs.values()) > MOST_SECONDS:
        return None
    counts = dict.fromkeys(runs, 1)
    for library, run in runs.items():
        for _ in range(2):
            counts[library] = max(1, math.ceil(LEAST_SECONDS / max(once(run, counts[library]), 1e-8)))
    times = {library: [] for library in runs}
    begin = clock()
    while len(times[torch]) < ROUNDS and (len(times[torch]) < 3 or clock() - begin < ENOUGH_SECONDS):
        for library, run in runs.items():
            if threads > 1:
                time.sleep(REST_SECONDS)
                run()  # wakes this library's threads
            times[library].append(once(run, counts[library]))
    return min(times[strata]), min(times[torch])  # other processes can only add time


def elements(result):
    if isinstance(result, (tuple, list)):
        return sum(map(elements, result))
    return result.numel() if isinstance(result, strata.Tensor) else 0


def too_slow(case, dtype):
    """Whether results or times grow faster than the input, so that a call of this size would not end."""
    for n in (SMALL, case.n // STEP):
        if SMALL <= n < case.n:
            small = op_cases.Case(case.name, case.sample, n, case.layout)
            both, _ = calls(small, Inputs(dtype, case.layout, seed=1))
            if elements(both[strata][0]()) > 32 * n:
                return True
            growth = (case.n / n) ** 1.5
            # The fastest of several: a first call also loads code, and would exclude ops at random.
            if any(
                min(once(both[lib][0], 1) for _ in range(4)) * growth > 20 * MOST_SECONDS for lib in (strata, torch)
            ):
                return True
    return False


def set_threads(count):
    torch.set_num_threads(count)
    strata.set_num_threads(count)


def measure(case, dtype, threads):
    """Rows of one case, for each phase and each number of threads."""
    set_threads(threads[-1])
    if too_slow(case, dtype):
        return []
    inputs = Inputs(dtype, case.layout, seed=case.n)
    both, difference = calls(case, inputs)
    rows = []
    for k, phase in enumerate(("forward", "train")):
        ours, theirs = both[strata][k], both[torch][k]
        if ours is None or theirs is None:
            continue
        for library in (strata, torch):
            for t in both[library][2]:
                t.requires_grad_(phase == "train")
        for count in threads:
            set_threads(count)
            times = compare(ours, theirs, count)
            if times:
                rows.append(
                    dict(op=case.name, text=case.text, n=case.n, layout=case.layout, dtype=dtype, phase=phase,
                         threads=count, us=times[0] * 1e6, torch_us=times[1] * 1e6, ratio=times[1] / times[0],
                         differs=difference, shared=phase == "train" and theirs.shared)
                )  # fmt: skip
    return rows


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def numbers(text):
    return [int(part) for part in text.split(",")]


def shard(text):
    k, n = (int(part) for part in text.split("/"))
    if not 1 <= k <= n:
        raise argparse.ArgumentTypeError(f"{text}: expected K/N with K from 1 to N")
    return k, n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers, default=[16, 10000, 1000000])
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--layouts", default="contiguous")
    parser.add_argument("--threads", type=numbers, default=[2], help="numbers of threads, each case with all of them")
    parser.add_argument("--only", default="", help="a regular expression that names of ops must match")
    parser.add_argument("--shard", type=shard, default=(1, 1), help="K/N: every N-th case, beginning with the K-th")
    parser.add_argument(
        "--again",
        nargs="+",
        default=[],
        help=f"measure only the cases with a ratio below {op_report.FLOOR} in these files",
    )
    parser.add_argument("--missing", nargs="+", default=[], help="measure only the cases that these files do not have")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no case after this time")
    parser.add_argument("--cpu-time", action="store_true", help="for one thread on a machine with other work")
    parser.add_argument("--out", help="a JSON file for all rows")
    parser.add_argument("--markdown", help="a file for the report")
    parser.add_argument("--merge", nargs="+", default=[], help="report these JSON files; measure nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of PyTorch, about calls that will change
    if options.merge:
        data = op_report.merged([json.loads(pathlib.Path(f).read_text()) for f in options.merge])
        save(data, options.out)
    else:
        data = measure_all(options)
    text = "\n".join(op_report.report(data)) + "\n"
    if options.markdown:
        pathlib.Path(options.markdown).write_text(text)
    print(text)


def chosen_cases(options):
    """[(op's name with its overload, Case, dtype)] in a shuffled order that is always the same."""
    cases = []
    for (name, overload), sample in op_cases.samples().items():
        if re.search(options.only, name):
            full_name = f"{name}.{overload}" if overload else name
            for dtype in options.dtypes.split(","):
                for layout in options.layouts.split(","):
                    cases += [(full_name, op_cases.Case(name, sample, n, layout), dtype) for n in options.sizes]

    def found(files, of_interest):
        rows = [r for file in files for r in json.loads(pathlib.Path(file).read_text())["rows"]]
        known = {op_report.case_of(r) for r in rows if of_interest(r)}
        return lambda case, dtype: (case.name, case.text, case.layout, dtype) in known

    random.Random(0).shuffle(cases)
    if options.again:
        is_again = found(options.again, op_report.is_slow)
        cases = [(o, c, dtype) for o, c, dtype in cases if is_again(c, dtype)]
    if options.missing:
        is_known = found(options.missing, lambda row: True)
        cases = [(o, c, dtype) for o, c, dtype in cases if not is_known(c, dtype)]
    k, n = options.shard
    return cases[k - 1 :: n]


def save(data, file):
    """Replaces the file at once, so that a run that is killed leaves the rows so far."""
    if file:
        part = pathlib.Path(f"{file}.part")
        part.write_text(json.dumps(data, indent=1))
        part.replace(file)


def measure_all(options):
    global clock
    if options.cpu_time:
        if options.threads != [1]:
            raise SystemExit("every_op.py: --cpu-time adds the times of all threads: use --threads 1")
        clock = time.process_time
    facts = dict(torch=torch.__version__, strata=strata.__version__, threads=options.threads,
                 date=time.strftime("%Y-%m-%d"), processor=processor(), cases_left=0, clock=clock.__name__)  # fmt: skip
    data = dict(facts=facts, rows=[], not_measured={})
    cases = chosen_cases(options)
    begin = saved = time.monotonic()
    for k, (full_name, case, dtype) in enumerate(cases):
        if time.monotonic() - begin > options.seconds:
            facts["cases_left"] = len(cases) - k
            break
        try:
            data["rows"] += measure(case, dtype, options.threads)
        except Exception as error:  # one of the two does not support it in this form
            data["not_measured"].setdefault(full_name, f"{type(error).__name__}: {error}"[:160])
        if time.monotonic() - saved > SAVE_SECONDS:
            save(data, options.out)
            saved = time.monotonic()
    save(data, options.out)
    return data


if __name__ == "__main__":
    main()
