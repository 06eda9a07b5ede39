"""Products of 16-bit matrices with long sums in parts (tensor_cores_in_parts): small integers exactly, layouts, what is added."""

import itertools
import os

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
KERNEL = "tensor_cores_in_parts"
HALVES = pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16], ids=str)


def integers(rng, *shape, dtype, most=2):
    return strata.tensor(rng.integers(-most + 1, most, shape).astype(np.float32)).to(dtype).to(DEVICE)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def run(f, *args, **kwargs):
    """The result of f by the kernel that splits sums."""
    results = []
    _C._prefer_kernel(KERNEL)
    try:
        lines = strata.explain(lambda: results.append(f(*args, **kwargs)))
    finally:
        _C._prefer_kernel(None)
    assert (KERNEL, "chosen") in [(name, reason[:6]) for _, name, reason in lines], lines
    return results[0]


def same(got, want, dtype):
    assert got.dtype == dtype
    np.testing.assert_array_equal(wide(got), strata.tensor(want).to(dtype).to(strata.float64).numpy())


def ordered(t, transposed):
    return t.transpose(-2, -1).contiguous().transpose(-2, -1) if transposed else t


@HALVES
@pytest.mark.parametrize("size", [(64, 64, 4096), (2, 3, 2100), (33, 70, 2049), (65, 2, 5000)], ids=str)
def test_all_orders_of_both_factors(size, dtype):
    m, n, k = size
    rng = np.random.default_rng(1)
    a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
    want = wide(a) @ wide(b)
    for left, right in itertools.product([False, True], repeat=2):
        same(run(strata.mm, ordered(a, left), ordered(b, right)), want, dtype)


@HALVES
def test_addends_batches_and_outputs(dtype):
    rng = np.random.default_rng(2)
    a, b = integers(rng, 3, 20, 2304, dtype=dtype), integers(rng, 3, 2304, 24, dtype=dtype)
    want = wide(a) @ wide(b)
    same(run(strata.bmm, a, b), want, dtype)
    c, row = integers(rng, 3, 20, 24, dtype=dtype), integers(rng, 24, dtype=dtype)
    same(run(strata.baddbmm, c, a, b, beta=2, alpha=0.5), 2 * wide(c) + 0.5 * want, dtype)
    same(run(strata.addmm, row, a[0], b[0]), wide(row) + want[0], dtype)
    same(run(strata.addmm, c[0].t().contiguous().t(), a[0], b[0]), wide(c)[0] + want[0], dtype)
    same(run(F.linear, a[0], b[0].t(), row), want[0] + wide(row), dtype)
    out = strata.zeros(24, 20, dtype=dtype, device=DEVICE).t()
    run(strata.mm, a[0], b[0], out=out)
    same(out, want[0], dtype)


@HALVES
def test_misaligned_rows(dtype):
    rng = np.random.default_rng(3)
    for offset in (1, 3, 8):
        a = integers(rng, 20 * 2305 + 16, dtype=dtype)[offset : offset + 20 * 2305].view(20, 2305)
        b = integers(rng, 2305, 40, dtype=dtype)[:, offset : offset + 24]
        same(run(strata.mm, a, b), wide(a) @ wide(b), dtype)


@HALVES
def test_normal_numbers_and_equal_bits(dtype):
    rng = np.random.default_rng(4)
    a, b = (strata.tensor(rng.standard_normal(s)).to(dtype).to(DEVICE) for s in ((48, 6000), (6000, 40)))
    y = run(strata.mm, a, b)
    want = wide(a) @ wide(b)
    error = {strata.bfloat16: 4e-3, strata.float16: 5e-4}[dtype]
    assert np.linalg.norm(wide(y) - want) <= error * np.linalg.norm(want)
    for _ in range(3):
        assert strata.equal(run(strata.mm, a, b), y)


def test_reasons():
    def reason_for(m, n, k, dtype=strata.bfloat16, prefer="tensor_cores"):
        a, b = strata.ones(m, k, dtype=dtype, device=DEVICE), strata.ones(k, n, dtype=dtype, device=DEVICE)
        _C._prefer_kernel(prefer)  # explain() ends with the chosen kernel: prefer one that comes later in the list
        try:
            return next(reason for _, name, reason in strata.explain(strata.mm, a, b) if name == KERNEL)
        finally:
            _C._prefer_kernel(None)

    assert reason_for(64, 64, 2048, prefer=KERNEL).startswith("chosen")
    assert reason_for(64, 64, 512) == "the sums are short"
    assert reason_for(64 * 34, 8, 64) == "the result has enough tiles"
    assert reason_for(8, 8, 4096, strata.float32, prefer="tiles_in_parts") == "for float16 and bfloat16"
