"""Products on Hopper with sums in parts, and TF32 products, each by its own name: small integers exactly, normal numbers beside float64.
They need a Hopper: test_virtual_hopper.py has a virtual one."""

import os

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_HOPPER = getattr(strata, DEVICE).get_device_capability()[0] == 9
DTYPES = [strata.bfloat16, strata.float16, strata.float32]


@pytest.fixture(autouse=True)
def tf32_is_allowed():
    before = strata.get_float32_matmul_precision()
    strata.set_float32_matmul_precision("high")
    yield
    strata.set_float32_matmul_precision(before)


def integers(rng, *shape, dtype):
    return strata.tensor(rng.integers(-2, 3, shape).astype(np.float64)).to(dtype).to(DEVICE)


def wide(t):
    return t.detach().cpu().double().numpy()


def run(kernel, f, *args, **kwargs):
    """The result, and whether this kernel computed it."""
    results = []
    _C._prefer_kernel(kernel)
    try:
        lines = strata.explain(lambda: results.append(f(*args, **kwargs)))
    finally:
        _C._prefer_kernel(None)
    return results[0], any(name == kernel and reason.startswith("chosen") for _, name, reason in lines)


def exactly(got, want, dtype):
    assert got.dtype == dtype
    np.testing.assert_array_equal(wide(got), strata.tensor(want).to(dtype).double().numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_sums_in_parts(dtype, seed):
    rng = np.random.default_rng(seed)
    used = 0
    sizes = [
        (128, 256, 4096),
        (5, 7, 2048),
        (64, 129, 3008),
        (1, 300, 1536),
        (130, 64, 1032),
        tuple(rng.integers(1, 140, 2)) + (2568,),
    ]
    for m, n, k in sizes:
        a, b = integers(rng, m, k, dtype=dtype), integers(rng, n, k, dtype=dtype)
        left, right, bias = wide(a), wide(b), integers(rng, n, dtype=dtype)
        for other in (b.t(), b.t().contiguous()):
            got, chosen = run("hopper_in_parts", strata.mm, a, other)
            exactly(got, left @ right.T, dtype)
            used += chosen
        got, chosen = run("hopper_in_parts", F.linear, a, b, bias)
        exactly(got, left @ right.T + wide(bias), dtype)
        c = integers(rng, m, n, dtype=dtype)
        got, _ = run("hopper_in_parts", strata.addmm, c, a, b.t(), beta=3, alpha=0.5)
        exactly(got, 3 * wide(c) + 0.5 * (left @ right.T), dtype)
        got, _ = run("hopper_in_parts", strata.addmm, c[:, :1], a, b.t(), beta=2)
        exactly(got, 2 * wide(c)[:, :1] + left @ right.T, dtype)
        out = strata.zeros(m, n + 3, dtype=dtype, device=DEVICE)
        _C._prefer_kernel("hopper_in_parts")
        try:
            strata.mm(a, b.t(), out=out[:, 1 : n + 1])
        finally:
            _C._prefer_kernel(None)
        exactly(out[:, 1 : n + 1], left @ right.T, dtype)
        assert not wide(out)[:, 0].any() and not wide(out)[:, n + 1 :].any()
    assert used > 0 or not ON_HOPPER


def test_tf32_orders_addresses_and_batches():
    rng = np.random.default_rng(3)
    dtype, used = strata.float32, 0
    for m, n, k in [(1, 1, 1), (17, 33, 65), (64, 64, 64), (130, 70, 31), (3, 200, 40), (200, 264, 136), (16, 8, 128)]:
        a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
        turned = [x.t().contiguous().t() for x in (a, b)]
        for left, right in ((a, b), (a, turned[1]), (turned[0], b), (turned[0], turned[1])):
            got, chosen = run("hopper_tf32", strata.mm, left, right)
            exactly(got, wide(a) @ wide(b), dtype)
            used += chosen
        bias, c = integers(rng, n, dtype=dtype), integers(rng, m, n, dtype=dtype)
        exactly(run("hopper_tf32", F.linear, a, turned[1].t(), bias)[0], wide(a) @ wide(b) + wide(bias), dtype)
        exactly(
            run("hopper_tf32", strata.addmm, c, a, b, beta=3, alpha=2)[0], 3 * wide(c) + 2 * wide(a) @ wide(b), dtype
        )
        exactly(run("hopper_tf32", strata.addmm, c[:, :1], a, b)[0], wide(c)[:, :1] + wide(a) @ wide(b), dtype)
    for offset in range(1, 5):
        a = integers(rng, 40 * 72 + 8, dtype=dtype)[offset : offset + 40 * 72].view(40, 72)
        b = integers(rng, 56, 80, dtype=dtype)[:, offset : offset + 72]
        got, chosen = run("hopper_tf32", strata.mm, a, b.t())
        exactly(got, wide(a) @ wide(b).T, dtype)
        used += chosen
    a, b = integers(rng, 2, 3, 40, 64, dtype=dtype), integers(rng, 3, 48, 64, dtype=dtype)
    got, chosen = run("hopper_tf32", strata.matmul, a, b.transpose(1, 2))
    exactly(got, wide(a) @ wide(b).swapaxes(1, 2), dtype)
    assert (used > 0 and chosen) or not ON_HOPPER


@pytest.mark.parametrize("kernel", ["hopper_tf32", "hopper_in_parts"])
def test_tf32_error(kernel):
    rng = np.random.default_rng(4)
    a, b = (strata.tensor(rng.standard_normal(s)).float().to(DEVICE) for s in ((100, 2000), (2000, 90)))
    got, chosen = run(kernel, strata.mm, a, b)
    want = wide(a) @ wide(b)
    error = np.linalg.norm(wide(got) - want) / np.linalg.norm(want)
    assert error < 1e-3 and (chosen or not ON_HOPPER)
    strata.set_float32_matmul_precision("highest")
    assert not run(kernel, strata.mm, a, b)[1]
