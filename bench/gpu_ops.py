"""Ops bound by memory or latency beside PyTorch on one GPU: gpu_ops.py [--device cuda] [--only REGEX] [--rounds 5] [--small] [--out DIR].

Indexing, ordering, scans, reductions, random numbers, losses and layers at sizes where the device's time counts; both libraries
are timed in turn by events (see gpu.py). Results go to gpu_ops.json and gpu_ops.md, the slowest ratio first; those of some cases
(--only) are printed, and written only to a given folder. --small runs tiny sizes, on the virtual GPU too, and shows that the
cases run.
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

import gpu
import strata

CASES = {}


class Inputs(gpu.Side):
    """Tensors of one library on one device. Sizes are divided by `shrink` on the virtual GPU."""

    def __init__(self, m, device, small):
        super().__init__(m, device)
        self.shrink = 64 if small else 1
        self.f = m.nn.functional

    def n(self, size):
        """A long dimension."""
        return max(4, size // self.shrink // (16 if self.shrink > 1 else 1))

    def floats(self, *shape, dtype="float32"):
        return self.randn(*shape, dtype=getattr(self.m, dtype))

    def ints(self, high, *shape):
        return self.m.randint(0, high, shape).to(self.device)

    def bools(self, *shape):
        return (self.m.rand(*shape) > 0.5).to(self.device)


def case(name):
    def register(make):
        CASES[name] = make
        return make

    return register


def cases(text, **made):
    """Several cases that differ in one value: the text has {}, and each keyword is a name and a function of Inputs."""
    for name, make in made.items():
        CASES[text.format(name.replace("_", " "))] = make


M = 1 << 20


# --- indexing ----------------------------------------------------------------------------------------------------------------
def scattered(s, bins, count):
    x, index, values = s.floats(s.n(bins)), s.ints(s.n(bins), s.n(count)), s.floats(s.n(count))
    return lambda: x.scatter_add(0, index, values)


cases(
    "scatter_add of 16M into {}",
    a_thousand=lambda s: scattered(s, 1024 * 16, 16 * M),
    a_million=lambda s: scattered(s, M, 16 * M),
)


@case("scatter_add along rows 4096x4096")
def _(s):
    n = s.n(4096)
    x, index, values = s.floats(n, n), s.ints(n, n, n), s.floats(n, n)
    return lambda: x.scatter_add(1, index, values)


@case("index_add of 256K rows of 64")
def _(s):
    x, index, rows = s.floats(s.n(65536), 64), s.ints(s.n(65536), s.n(262144)), s.floats(s.n(262144), 64)
    return lambda: x.index_add(0, index, rows)


cases(
    "gather 4096x4096 along {}",
    rows=lambda s: (lambda x, i: lambda: x.gather(1, i))(
        s.floats(s.n(4096), s.n(4096)), s.ints(s.n(4096), s.n(4096), s.n(4096))
    ),
    columns=lambda s: (lambda x, i: lambda: x.gather(0, i))(
        s.floats(s.n(4096), s.n(4096)), s.ints(s.n(4096), s.n(4096), s.n(4096))
    ),
)


@case("rows by index, 1M of 64")
def _(s):
    x, index = s.floats(s.n(M), 64), s.ints(s.n(M), s.n(M))
    return lambda: x[index]


@case("index_select of columns 4096x4096")
def _(s):
    x, index = s.floats(s.n(4096), s.n(4096)), s.ints(s.n(4096), s.n(4096))
    return lambda: x.index_select(1, index)


@case("take of 16M")
def _(s):
    x, index = s.floats(s.n(16 * M)), s.ints(s.n(16 * M), s.n(16 * M))
    return lambda: s.m.take(x, index)


@case("index_put of 1M")
def _(s):
    x, index, values = s.floats(s.n(16 * M)), s.ints(s.n(16 * M), s.n(M)), s.floats(s.n(M))
    return lambda: x.index_put_((index,), values)


def in_any_order(make):
    """The case without the promise of equal bits, which PyTorch does not give either."""

    def made(s):
        run = make(s)
        if s.m is not strata:
            return run

        def unordered():
            strata.backends.cuda.deterministic = False
            run()
            strata.backends.cuda.deterministic = True

        return unordered

    return made


for _name in ("index_put of 1M", "scatter_add of 16M into a million", "index_add of 256K rows of 64"):
    CASES[f"{_name}, in any order"] = in_any_order(CASES[_name])


def embedded(s, backward):
    table, index = s.floats(s.n(50257), 768, dtype="bfloat16"), s.ints(s.n(50257), 32, s.n(1024))
    if not backward:
        return lambda: s.f.embedding(index, table)
    table.requires_grad_()
    g = s.f.embedding(index, table).detach()

    def step():
        table.grad = None
        s.f.embedding(index, table).backward(g)

    return step


cases(
    "embedding 50257x768 bf16, 32K tokens, {}",
    forward=lambda s: embedded(s, False),
    backward=lambda s: embedded(s, True),
)


@case("masked_select of 16M")
def _(s):
    x, mask = s.floats(s.n(16 * M)), s.bools(s.n(16 * M))
    return lambda: x.masked_select(mask)


@case("nonzero of 16M")
def _(s):
    mask = s.bools(s.n(16 * M))
    return lambda: mask.nonzero()


# --- order -------------------------------------------------------------------------------------------------------------------
cases(
    "sort of {}",
    sixteen_million=lambda s: (lambda x: lambda: x.sort())(s.floats(s.n(16 * M))),
    sixteen_million_int64=lambda s: (lambda x: lambda: x.sort())(s.ints(1 << 30, s.n(16 * M))),
    rows_4096x4096=lambda s: (lambda x: lambda: x.sort(-1))(s.floats(s.n(4096), s.n(4096))),
    rows_65536x128=lambda s: (lambda x: lambda: x.sort(-1))(s.floats(s.n(65536), 128)),
)
cases(
    "topk {}",
    of_50_in_64x50257=lambda s: (lambda x: lambda: x.topk(50))(s.floats(64, s.n(50257) + 50)),
    of_8_in_16M=lambda s: (lambda x: lambda: x.topk(8))(s.floats(s.n(16 * M) + 8)),
)
cases(
    "bincount of 16M into {}",
    a_thousand=lambda s: (lambda x: lambda: s.m.bincount(x))(s.ints(1000, s.n(16 * M))),
    a_million=lambda s: (lambda x: lambda: s.m.bincount(x))(s.ints(s.n(M), s.n(16 * M))),
)
cases(
    "unique of 16M with {} values",
    a_thousand=lambda s: (lambda x: lambda: s.m.unique(x))(s.ints(1000, s.n(16 * M))),
    a_million=lambda s: (lambda x: lambda: s.m.unique(x))(s.ints(s.n(M), s.n(16 * M))),
)


@case("histc of 16M")
def _(s):
    x = s.floats(s.n(16 * M))
    return lambda: s.m.histc(x, 100, -3, 3)


@case("searchsorted 16M in 64K")
def _(s):
    edges, x = s.floats(s.n(65536)).sort()[0], s.floats(s.n(16 * M))
    return lambda: s.m.searchsorted(edges, x)


@case("median of rows 4096x4096")
def _(s):
    x = s.floats(s.n(4096), s.n(4096))
    return lambda: x.median(-1)


# --- scans and reductions ----------------------------------------------------------------------------------------------------
for op in ("cumsum", "cumprod", "logcumsumexp", "cummax"):
    CASES[f"{op} of a vector of 16M"] = lambda s, op=op: (lambda x: lambda: getattr(x, op)(0))(s.floats(s.n(16 * M)))
cases(
    "cumsum 4096x4096 along {}",
    rows=lambda s: (lambda x: lambda: x.cumsum(1))(s.floats(s.n(4096), s.n(4096))),
    columns=lambda s: (lambda x: lambda: x.cumsum(0))(s.floats(s.n(4096), s.n(4096))),
)
for dtype in ("float32", "bfloat16"):
    for op in ("sum", "mean", "amax", "argmax", "max", "logsumexp", "norm", "var", "prod"):
        for side, dim in (("rows", 1), ("columns", 0)):
            CASES[f"{op} of {side} 8192x8192 {dtype}"] = lambda s, op=op, dim=dim, dtype=dtype: (
                lambda x: (lambda: x.norm(2, dim)) if op == "norm" else (lambda: getattr(x, op)(dim))
            )(s.floats(s.n(8192), s.n(8192), dtype=dtype))
    for op in ("sum", "max", "argmax", "norm", "std"):
        CASES[f"{op} of all 8192x8192 {dtype}"] = lambda s, op=op, dtype=dtype: (lambda x: lambda: getattr(x, op)())(
            s.floats(s.n(8192), s.n(8192), dtype=dtype)
        )
cases(
    "{} of 64M",
    any_of_bool=lambda s: (lambda x: lambda: x.any())(s.bools(s.n(64 * M)) & False),
    all_of_bool=lambda s: (lambda x: lambda: x.all())(s.bools(s.n(64 * M)) | True),
    any_of_rows=lambda s: (lambda x: lambda: x.any(1))(s.bools(s.n(8192), s.n(8192))),
    count_nonzero=lambda s: (lambda x: lambda: x.count_nonzero())(s.bools(s.n(64 * M))),
    sum_of_int64=lambda s: (lambda x: lambda: x.sum())(s.ints(100, s.n(64 * M))),
)

# --- random numbers ----------------------------------------------------------------------------------------------------------
cases(
    "{} of 64M",
    randn=lambda s: lambda: s.m.randn(s.n(64 * M), device=s.device),
    rand=lambda s: lambda: s.m.rand(s.n(64 * M), device=s.device),
    randint=lambda s: lambda: s.m.randint(0, 1000, (s.n(64 * M),), device=s.device),
    exponential=lambda s: (lambda x: lambda: x.exponential_())(s.floats(s.n(64 * M))),
    bernoulli=lambda s: (lambda x: lambda: x.bernoulli_(0.5))(s.floats(s.n(64 * M))),
    dropout_bf16=lambda s: (lambda x: lambda: s.f.dropout(x, 0.1))(s.floats(s.n(64 * M), dtype="bfloat16")),
)
CASES["randperm of 1M"] = lambda s: lambda: s.m.randperm(s.n(M), device=s.device)


# --- movement ----------------------------------------------------------------------------------------------------------------
def joined(s, dim, dtype):
    parts = [s.floats(s.n(4096), s.n(4096), dtype=dtype) for _ in range(3)]
    return lambda: s.m.cat(parts, dim)


for dtype in ("float32", "bfloat16"):
    CASES[f"cat of three 4096x4096 below each other {dtype}"] = lambda s, dtype=dtype: joined(s, 0, dtype)
    CASES[f"cat of three 4096x4096 side by side {dtype}"] = lambda s, dtype=dtype: joined(s, 1, dtype)
    CASES[f"where of 64M {dtype}"] = lambda s, dtype=dtype: (lambda c, x, y: lambda: s.m.where(c, x, y))(
        s.bools(s.n(64 * M)), s.floats(s.n(64 * M), dtype=dtype), s.floats(s.n(64 * M), dtype=dtype)
    )


def image(s, make, shape=(64, 64, 56, 56), dtype="float32"):
    x = s.floats(*(max(2, v // (8 if s.shrink > 1 else 1)) for v in shape), dtype=dtype)
    return make(x)


cases(
    "{} 4096x4096",
    flip=lambda s: (lambda x: lambda: x.flip(1))(s.floats(s.n(4096), s.n(4096))),
    roll=lambda s: (lambda x: lambda: x.roll(17, 1))(s.floats(s.n(4096), s.n(4096))),
    tril=lambda s: (lambda x: lambda: x.tril())(s.floats(s.n(4096), s.n(4096))),
    masked_fill=lambda s: (lambda x, m: lambda: x.masked_fill(m, 0.0))(
        s.floats(s.n(4096), s.n(4096)), s.bools(s.n(4096), s.n(4096))
    ),
    softmax_of_columns=lambda s: (lambda x: lambda: x.softmax(0))(s.floats(s.n(4096), s.n(4096))),
    repeat=lambda s: (lambda x: lambda: x.repeat(2, 2))(s.floats(s.n(4096), s.n(4096))),
    permute=lambda s: (lambda x: lambda: x.permute(2, 0, 1).contiguous())(s.floats(s.n(4096), 64, 64)),
)
cases(
    "{} of 64x64x56x56",
    reflect_pad=lambda s: image(s, lambda x: lambda: s.f.pad(x, (2, 2, 2, 2), mode="reflect")),
    zero_pad=lambda s: image(s, lambda x: lambda: s.f.pad(x, (1, 1, 1, 1))),
    nearest_interpolation=lambda s: image(s, lambda x: lambda: s.f.interpolate(x, scale_factor=2)),
    bilinear_interpolation=lambda s: image(
        s, lambda x: lambda: s.f.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    ),
    max_pool=lambda s: image(s, lambda x: lambda: s.f.max_pool2d(x, 3, 2, 1)),
    avg_pool=lambda s: image(s, lambda x: lambda: s.f.avg_pool2d(x, 2)),
    adaptive_avg_pool=lambda s: image(s, lambda x: lambda: s.f.adaptive_avg_pool2d(x, 1)),
    batch_norm=lambda s: image(s, lambda x: lambda: s.f.batch_norm(x, None, None, training=True)),
    group_norm=lambda s: image(s, lambda x: lambda: s.f.group_norm(x, 4)),
    channels_last=lambda s: image(s, lambda x: lambda: x.contiguous(memory_format=s.m.channels_last)),
)


# --- losses and layers, forward and backward -----------------------------------------------------------------------------------
def trained(s, x, forward):
    """forward and backward of forward(x) with a gradient of ones."""
    x = x.requires_grad_()
    g = s.m.ones_like(forward(x)).detach()

    def step():
        x.grad = None
        forward(x).backward(g)

    return step


def classes(s, rows, count, dtype, backward):
    x, target = s.floats(s.n(rows), s.n(count), dtype=dtype), s.ints(s.n(count), s.n(rows))
    if not backward:
        return lambda: s.f.cross_entropy(x, target)
    return trained(s, x, lambda x: s.f.cross_entropy(x, target))


for dtype in ("float32", "bfloat16"):
    for backward in (False, True):
        CASES[f"cross_entropy 8192x50257 {dtype} {'backward' if backward else 'forward'}"] = (
            lambda s, dtype=dtype, backward=backward: classes(s, 8192, 50257, dtype, backward)
        )
    CASES[f"layer_norm 32768x768 {dtype} backward"] = lambda s, dtype=dtype: trained(
        s, s.floats(s.n(32768), 768, dtype=dtype), lambda x: s.f.layer_norm(x, (768,))
    )
    CASES[f"gelu 32768x3072 {dtype} backward"] = lambda s, dtype=dtype: trained(
        s, s.floats(s.n(32768), s.n(3072), dtype=dtype), s.f.gelu
    )
    CASES[f"softmax 8192x8192 {dtype} backward"] = lambda s, dtype=dtype: trained(
        s, s.floats(s.n(8192), s.n(8192), dtype=dtype), lambda x: x.softmax(-1)
    )
    CASES[f"batch_norm 64x64x56x56 {dtype} backward"] = lambda s, dtype=dtype: image(
        s, lambda x: trained(s, x, lambda x: s.f.batch_norm(x, None, None, training=True)), dtype=dtype
    )
    CASES[f"max_pool 64x64x56x56 {dtype} backward"] = lambda s, dtype=dtype: image(
        s, lambda x: trained(s, x, lambda x: s.f.max_pool2d(x, 3, 2, 1)), dtype=dtype
    )


def seconds(side, call, small):
    call()
    once = side.seconds(call, 1)
    return side.seconds(call, 1 if small else max(3, min(400, int(0.008 / max(once, 1e-6)))))


def measured(name, sides, args):
    calls = [CASES[name](s) for s in sides]
    times = [[] for _ in sides]
    for _ in range(args.rounds):
        for s, call, t in zip(sides, calls, times, strict=True):
            t.append(seconds(s, call, args.small))
    ours, *theirs = [statistics.median(t) for t in times]
    row = dict(case=name, strata_us=ours * 1e6)
    if theirs:
        row.update(torch_us=theirs[0] * 1e6, ratio=theirs[0] / ours)
    return row


def markdown(result):
    rows = [r for r in result["rows"] if "ratio" in r]
    mean = math.exp(statistics.fmean(math.log(r["ratio"]) for r in rows)) if rows else math.nan
    lines = [
        f"# Ops on a GPU: {result['device']}",
        "",
        f"{result['date']}; "
        + ", ".join(f"{k} {v}" for k, v in result["versions"].items())
        + "; `bench/gpu_ops.py`, medians of interleaved rounds, device time. Above 1 Strata is faster.",
        "",
        f"{len(rows)} cases, geometric mean {mean:.2f}x, {sum(r['ratio'] < 0.95 for r in rows)} below 0.95x.",
        "",
        "| case | Strata, us | PyTorch, us | ratio |",
        "|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: r["ratio"]):
        lines.append(f"| {r['case']} | {r['strata_us']:.1f} | {r['torch_us']:.1f} | {r['ratio']:.2f}x |")
    lines += [f"| {r['case']} | failed: {r['error'].splitlines()[0]} | | |" for r in result["rows"] if "error" in r]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", "--cases", default="", metavar="REGEX", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="sizes for the virtual GPU: shows that the cases run")
    parser.add_argument("--out", help="folder of the results; without --only: results")
    args = parser.parse_args()
    module = getattr(strata, strata.device(args.device).type)
    if not module.is_available():
        print(f"gpu_ops.py: {args.device} is not available: {module.why_not()}", file=sys.stderr)
        return 3
    sides = [Inputs(strata, args.device, args.small)]
    versions = {"strata": strata.__version__, "python": platform.python_version()}
    if args.device.startswith("cuda"):
        import torch

        sides.append(Inputs(torch, args.device, args.small))
        versions["torch"] = torch.__version__
    result = dict(date=datetime.date.today().isoformat(), device=module.get_device_name(), versions=versions, rows=[])
    for name in CASES:
        if not re.search(args.only, name):
            continue
        try:
            row = measured(name, sides, args)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as e:
            row = dict(case=name, error=f"{type(e).__name__}: {e}")
        result["rows"].append(row)
        ratio = f"   torch {row['torch_us']:10.1f}   {row['ratio']:6.2f}x" if "ratio" in row else ""
        print(f"{name:<52} {row.get('error') or format(row['strata_us'], '10.1f')}{ratio}", flush=True)
        for s in sides:
            s.gpu.empty_cache()
    if args.out or not args.only:
        folder = pathlib.Path(args.out or gpu.HERE / "results")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gpu_ops.json").write_text(json.dumps(result, indent=1) + "\n")
        (folder / "gpu_ops.md").write_text(markdown(result))
        print(f"wrote {folder}/gpu_ops.json and gpu_ops.md")
    return 1 if any("error" in r for r in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
