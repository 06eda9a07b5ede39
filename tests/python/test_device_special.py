"""Infinities, NaNs and zeros are at the same positions on a device and on the CPU, for every op of the records that takes floats."""

import itertools
import os

import numpy as np
import pytest
import records
import strata
from records import RECORDS, label

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
SPECIAL = (0.0, 1.0, float("inf"), -float("inf"), float("nan"), -0.0, -2.5)
ROWS = strata.tensor(list(itertools.product(SPECIAL[:5], repeat=3)), dtype=strata.float32)

OVER_ROWS = {
    "softmax": lambda t: t.softmax(-1),
    "log_softmax": lambda t: t.log_softmax(-1),
    "softmax of columns": lambda t: t.t().contiguous().softmax(0),
    "logsumexp": lambda t: t.logsumexp(-1),
    "max": lambda t: t.max(-1).values,
    "argmax": lambda t: t.argmax(-1),
    "argmin": lambda t: t.argmin(-1),
    "median": lambda t: t.median(-1).values,
    "sort": lambda t: t.sort(-1).values,
    "topk": lambda t: t.topk(2, -1).values,
    "cummax": lambda t: t.cummax(-1).values,
    "logcumsumexp": lambda t: t.logcumsumexp(-1),
    "var": lambda t: t.var(-1),
    "norm": lambda t: t.norm(dim=-1),
    "layer_norm": lambda t: strata.nn.functional.layer_norm(t, t.shape[-1:]),
    "max_pool1d": lambda t: strata.nn.functional.max_pool1d(t[None], 2, 1),
    "avg_pool1d": lambda t: strata.nn.functional.avg_pool1d(t[None], 2, 1),
}


def assert_same_places(got, want, what):
    a, b = records.to_numpy(got.cpu()).astype(np.float64), records.to_numpy(want).astype(np.float64)
    assert a.shape == b.shape, what
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=what)
    np.testing.assert_array_equal(np.isinf(a), np.isinf(b), err_msg=what)
    np.testing.assert_allclose(a[~np.isnan(a)], b[~np.isnan(b)], rtol=1e-4, atol=1e-5, err_msg=what)


@pytest.mark.parametrize("name", OVER_ROWS)
@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.bfloat16])
def test_rows_of_special_values(name, dtype):
    rows = ROWS.to(dtype)
    assert_same_places(OVER_ROWS[name](rows.to(DEVICE)), OVER_ROWS[name](rows), name)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "frac", "sqrt", "exp", "sin", "isinf"])
@pytest.mark.parametrize("dtype", [strata.float64, strata.float32, strata.float16, strata.bfloat16])
def test_infinities_in_every_format(name, dtype):
    x = strata.tensor(SPECIAL, dtype=dtype)
    assert_same_places(getattr(x.to(DEVICE), name)(), getattr(x, name)(), name)


def special_like(t):
    values = (SPECIAL * (t.numel() // len(SPECIAL) + 1))[: t.numel()]
    return strata.tensor(values, dtype=t.dtype).reshape(t.shape)


POINTWISE = [r for r in RECORDS if r["kind"] == "pointwise" and not r["random"] and strata.float32 in r["dtypes"]]


@pytest.mark.parametrize("record", POINTWISE, ids=label)
def test_pointwise_ops_of_special_values(record):
    checked = 0
    for text, arguments in records.samples(record, strata.float32):
        first = next(
            (k for k, v in arguments.items() if isinstance(v, strata.Tensor) and v.dtype.is_floating_point), None
        )
        if first is None:
            continue
        arguments[first] = special_like(arguments[first])
        want = records.tensors(records.call(record, arguments))
        got = records.tensors(records.call(record, records.map_tensors(lambda t: t.to(DEVICE), arguments)))
        for g, w in zip(got, want, strict=True):
            assert_same_places(g, w, f"{label(record)} ({text})")
        checked += 1
    assert checked or all("f(" not in t for t in record["samples"])
