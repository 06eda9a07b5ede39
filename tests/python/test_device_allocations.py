"""Kernels of devices allocate no memory while they run: what they need besides results is the workspace of their plan, which
dispatch allocates, under one limit. Counted with trace spans of the allocator, on the virtual GPU."""

import os
import re

import pytest
import records
import strata
from records import RECORDS

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
on_device = [r for r in RECORDS if r["cuda_kernels"] and r["samples"] and not r["name"].endswith("_")]

# Kernels that allocate while they run, by regular expressions of "op/kernel", each with its reason.
ALLOCATING = {
    r"_(varlen_|paged_)?attention/ops|_linear_cross_entropy(_backward)?/chunks|_fused_muon/ops|_int_mm/int32|_scaled_mm/float32|_weight_int(8pack|4)_mm/dequantized|_(linear_activation|convolution_relu|fused_convolution|fused_linear|int8_convolution|int8_linear)/in_turn|_(quantize|dequantize|dequantize_channels)/ops|_(lstm|recurrent)_layer(_backward)?/\w+|scatter_reduce/scatter_core": "made of other ops, which have results",
}


def allocations(events):
    """The bytes of each allocation in the outermost kernel span, and its "op/kernel"."""
    found, name, open_spans = [], None, []
    for e in sorted(events, key=lambda e: (e["begin_ns"], -e["end_ns"])):
        while open_spans and e["begin_ns"] >= open_spans[-1]["end_ns"]:
            open_spans.pop()
        if e["layer"] == "runtime" and e["name"] == "allocate" and "device" in dict(e["facts"]):
            kernel = next((i for i, span in enumerate(open_spans) if span["layer"] == "kernel"), None)
            if kernel is not None:  # also in ops that the kernel calls
                name = f"{open_spans[kernel - 1]['name']}/{open_spans[kernel]['name']}"
                found.append(dict(e["facts"])["bytes"])
        open_spans.append(e)
    return found, name


def within(inner, outer):
    return outer["begin_ns"] <= inner["begin_ns"] and inner["end_ns"] <= outer["end_ns"]


def planned_workspace(function, arguments):
    """The bytes that the plan of the chosen kernel asks for; dispatch allocates them. Ops inside come after it."""
    lines = strata.explain(function, **arguments)
    chosen = next(verdict for op, _, verdict in lines if op == lines[0][0] and verdict.startswith("chosen"))
    return [int(bytes) for bytes in re.findall(r"(\d+) bytes of workspace", chosen)]


def moved(record, arguments, change):
    there = records.map_tensors(lambda t: change(t.to(DEVICE)), arguments)
    if "device? device" in record["schema"] and not records.tensors(there):
        there["device"] = DEVICE
    return there


def strided(t):
    """The same values with gaps between them."""
    return strata.stack([t, t], -1)[..., 0]


def allocating_kernels(record):
    """The kernels that allocate more than their workspace, for contiguous and strided arguments."""
    found = set()
    dtype = next(d for d in (strata.float32, *record["dtypes"]) if d in record["dtypes"])
    for change in (lambda t: t, strided):
        for _, arguments in records.samples(record, dtype):
            there = moved(record, arguments, change)
            expected = planned_workspace(records.callable_of(record), there)
            with strata.tracing() as trace:
                records.callable_of(record)(**there)
            made, name = allocations(trace.events)
            if made != expected:
                found.add(name)
    return found


@pytest.fixture(scope="module")
def found():
    return {name for record in on_device for name in allocating_kernels(record)}


def test_kernels_allocate_nothing(found):
    excused = {name for name in found if any(re.fullmatch(pattern, name) for pattern in ALLOCATING)}
    assert found == excused, "take the memory from the workspace of a plan (docs/internals/dispatch.md)"


@pytest.mark.parametrize("pattern", ALLOCATING)
def test_exceptions_are_needed(pattern, found):
    assert any(re.fullmatch(pattern, name) for name in found)


SCANS = ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "var", "std", "var_mean"]
SORTS = ["sort", "argsort", "median", "nanmedian", "mode", "max", "min"]
ALONG = {name: (getattr(strata, name), {"dim": 0}) for name in SCANS + SORTS} | {
    "topk": (strata.topk, {"k": 5}),
    "topk_of_many": (strata.topk, {"k": 5000}),
    "kthvalue": (strata.kthvalue, {"k": 7}),
    "median_of_all": (strata.median, {}),
    "argmax_of_all": (strata.argmax, {}),
    "vector_norm": (strata.linalg.vector_norm, {"ord": 3}, "x"),
}


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "strided"])
def test_long_lines_use_the_workspace(name, step):
    x = strata.linspace(0.5, 1.5, step << 15).to(DEVICE)[::step]
    function, arguments, *first = ALONG[name]
    arguments = {first[0] if first else "input": x, **arguments}
    expected = planned_workspace(function, arguments)
    with strata.tracing() as trace:
        function(**arguments)
    made, _ = allocations(trace.events)
    assert made == expected


def numbers(n, step):
    return (strata.arange(n * step) * 7 % (n // 2)).to(DEVICE)[::step]


LONG = {
    "nonzero": lambda x, at: strata.nonzero(x),
    "masked_select": lambda x, at: strata.masked_select(x, at > 3),
    "gather": lambda x, at: strata.gather(x, 0, at),
    "index": lambda x, at: x[at],
    "index_put": lambda x, at: strata.index_put(x, [at], x),
    "index_put_sums": lambda x, at: strata.index_put(x, [at], x, True),
    "scatter": lambda x, at: strata.scatter(x, 0, at, x),
    "scatter_add": lambda x, at: strata.scatter_add(x, 0, at, x),
    "embedding_backward": lambda x, at: strata._C.ops["_embedding_backward"](
        strata.stack([x, x], 1), at, 1 << 14, -1, False
    ),
    "fill_in_place": lambda x, at: x.normal_(),
    "integers_in_place": lambda x, at: x.random_(0, 5),
    "bernoulli_in_place": lambda x, at: x.bernoulli_(x.clamp(0, 1)),
    "scatter_in_place": lambda x, at: x.scatter_add_(0, at, x),
    "put_in_place": lambda x, at: x.index_put_([at], x, True),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "strided"])
def test_long_inputs_use_one_workspace(name, step):
    x, at = strata.ones(step << 14).to(DEVICE)[::step], numbers(1 << 14, step)
    with strata.tracing() as trace:
        LONG[name](x, at)
    inside = {}  # allocations of each kernel span
    for kernel in (e for e in trace.events if e["layer"] == "kernel"):
        inside[kernel["id"]] = [e for e in trace.events if e["name"] == "allocate" and within(e, kernel)]
    assert inside and all(len(made) <= 1 for made in inside.values())


def test_long_permutations_use_the_workspace():
    with strata.tracing() as trace:
        order = strata.randperm(1 << 15, device=DEVICE)
    made, name = allocations(trace.events)
    assert (len(made), name) == (1, "randperm/radix_sort") and order.sort()[0].equal(
        strata.arange(1 << 15, device=DEVICE)
    )


def test_one_limit_holds_for_all_kernels():
    x = strata.ones(1 << 15, device=DEVICE)
    strata.set_workspace_limit(16)
    try:
        with pytest.raises(NotImplementedError, match="bytes of workspace, the limit is 16"):
            strata.cumsum(x, 0)
    finally:
        strata.set_workspace_limit(None)
