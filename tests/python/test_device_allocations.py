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
    r"_attention/ops|_fused_muon/ops|_lstm_layer(_backward)?/\w+|scatter_reduce/scatter_core": "made of other ops, which have results",
    r"nonzero/tiles|_masked_select/tiles|tri[lu]_indices/nonzero": "the size of the result is known after the first launch",
    r"(sort|argsort|topk|kthvalue|median|nanmedian|mode)/block_lines": "copies of strided arguments, and the order of a line",
    r"_embedding_backward/sorted_rows|index_put_at/rows|unview/sorted": "sorts positions first",
    r"_fused_\w+/fused|_total_norm/fused": "numbers of each parameter and copies of parameters of other layouts, for a list of any length",
    r"_ctc_loss/forward_backward|_fractional_max_pool/windows|_resample(_backward)?/separable": "intermediate values",
    r"linalg.vector_norm/threads|random_bernoulli/philox": "intermediate values",
    r"_(adaptive_)?(avg|max)_pool(_backward)?/windows|_plane_(gather|scatter)/planes|nn.functional.(un)?fold/columns": "copies of strided arguments",
    r"_(binary_)?cross_entropy(_backward)?/\w+|_nll_loss(_backward)?/\w+|_grid_sample(_backward)?/places": "copies of strided arguments",
    r"_embedding/rows|gather/elements|index_at/rows|search_core/rows|arg(max|min)/reduce": "copies of strided arguments",
    r"frexp/formula|native_dropout/philox|tri[lu]/triangle": "copies of strided arguments",
}


def allocations(events):
    """The bytes of each allocation in the outermost kernel span, and its "op/kernel"."""
    found, name, open_spans = [], None, []
    for e in sorted(events, key=lambda e: (e["begin_ns"], -e["end_ns"])):
        while open_spans and e["begin_ns"] >= open_spans[-1]["end_ns"]:
            open_spans.pop()
        if e["layer"] == "runtime" and e["name"] == "allocate":
            kernel = next((i for i, span in enumerate(open_spans) if span["layer"] == "kernel"), None)
            if kernel is not None:  # also in ops that the kernel calls
                name = f"{open_spans[kernel - 1]['name']}/{open_spans[kernel]['name']}"
                found.append(int(e["detail"].split()[0]))
        open_spans.append(e)
    return found, name


def planned_workspace(record, arguments):
    """The bytes that the plan of the chosen kernel asks for; dispatch allocates them."""
    verdict = strata.explain(records.callable_of(record), **arguments)[-1][2]
    found = re.search(r"(\d+) bytes of workspace", verdict)
    return [int(found[1])] if found else []


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
            expected = planned_workspace(record, there)
            with strata.trace() as trace:
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


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "var", "std", "var_mean"])
@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "strided"])
def test_long_lines_use_the_workspace(name, step):
    x = strata.linspace(0.5, 1.5, step << 15).to(DEVICE)[::step]
    function, arguments = getattr(strata, name), {"input": x, "dim": 0}
    verdict = strata.explain(function, **arguments)[-1][2]
    with strata.trace() as trace:
        function(**arguments)
    made, _ = allocations(trace.events)
    assert len(made) == 1 and f"{made[0]} bytes of workspace" in verdict


def test_one_limit_holds_for_all_kernels():
    x = strata.ones(1 << 15, device=DEVICE)
    strata.set_workspace_limit(16)
    try:
        with pytest.raises(NotImplementedError, match="bytes of workspace, the limit is 16"):
            strata.cumsum(x, 0)
    finally:
        strata.set_workspace_limit(None)
