"""Products of 8-bit matrices: integers exactly, float8 with scales against float64; each kernel that the device has, in all orders of the
factors, with odd sizes and strides."""

import os

import numpy as np
import pytest
import strata
from strata import _C

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_CARD = DEVICE == "cuda"
ON_HOPPER = getattr(strata, DEVICE).get_device_capability()[0] == 9
DEVICES = ["cpu", DEVICE]
SIZES = [(1, 1, 1), (2, 3, 5), (17, 33, 64), (65, 129, 31), (16, 48, 256)]
if ON_CARD:
    SIZES += [(5, 260, 64), (130, 70, 257), (260, 259, 130), (512, 520, 256), (511, 528, 208), (640, 640, 512)]
# Hopper's tensor cores align the products of a step to the largest of them, with 13 bits: cuBLASLt has the same error.
SUMS_ON_HOPPER = 2**-11
E4M3, E5M2 = strata.float8_e4m3fn, strata.float8_e5m2


TUNED = ["hopper"] * ON_HOPPER + ["cublaslt"] * ON_CARD
every_integer_kernel = pytest.mark.parametrize("kernel", [*TUNED, "int32"])
every_float_kernel = pytest.mark.parametrize("kernel", [*TUNED, "float32"])


def run(kernel, f, *args, **kwargs):
    """The result of f, by this kernel if it is ready for the call."""
    results = []
    _C._prefer_kernel(kernel)
    try:
        strata.explain(lambda: results.append(f(*args, **kwargs)))
    finally:
        _C._prefer_kernel(None)
    return results[0]


def arranged(t, order):
    """The same matrix: rows, columns, or both with gaps."""
    if order == "columns":
        return t.t().contiguous().t()
    if order == "gaps":
        wide = strata.zeros(t.shape[0], t.shape[1] + 3, dtype=t.dtype, device=t.device)
        wide[:, 1:-2] = t
        return wide[:, 1:-2]
    return t


# --- integers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("orders", [("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("gaps", "gaps")])
@pytest.mark.parametrize("size", SIZES, ids=str)
@every_integer_kernel
def test_integers_are_exact(kernel, size, orders, device):
    m, n, k = size
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-128, 128, s, dtype=np.int8) for s in ((m, k), (k, n)))
    x, y = (arranged(strata.tensor(v).to(device), order) for v, order in zip((a, b), orders, strict=True))
    got = run(kernel, strata._int_mm, x, y)
    assert got.dtype == strata.int32 and got.device.type == device
    assert np.array_equal(got.cpu().numpy(), (a.astype(float) @ b.astype(float)).astype(np.int64))


def test_sums_of_integers_reach_the_limit_of_32_bits():
    k = (1 << 31) // (128 * 128)
    x = strata.full((2, k), -128, dtype=strata.int8, device=DEVICE)
    assert strata._int_mm(x, x.t()[:, :1]).tolist() == [[-(1 << 31)]] * 2  # 2^31 wraps


@pytest.mark.parametrize("device", DEVICES)
def test_out_of_integers(device):
    x, y = (strata.ones(s, dtype=strata.int8, device=device) for s in ((3, 4), (4, 5)))
    out = strata.empty(5, 3, dtype=strata.int32, device=device).t()
    strata._int_mm(x, y, out=out)
    assert out.tolist() == [[4] * 5] * 3
    with pytest.raises(RuntimeError, match="int8"):
        strata._int_mm(x.int(), y.int())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        strata._int_mm(x, x)


# --- float8 ----------------------------------------------------------------------------------------------------------


def values(shape, dtype, device, seed):
    """Random numbers that dtype has, on the device, and in float64."""
    t = strata.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).to(dtype)
    return t.to(device), t.to(strata.float64).numpy()


def scales(kind, m, n, k, device):
    """Scales of both factors, and the same as float64 arrays that broadcast over the factors."""
    rng = np.random.default_rng(m + n)

    def blocks(size):
        return -(-size // 128)

    shapes = {
        "numbers": ((), ()),
        "rows": ((m, 1), (1, n)),
        "blocks": ((m, blocks(k)), (blocks(k), n)),
        "squares": ((m, blocks(k)), (blocks(k), blocks(n))),
    }[kind]
    a, b = (rng.uniform(0.25, 2, s).astype(np.float32) for s in shapes)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    if kind in ("blocks", "squares"):
        wide_a = np.repeat(wide_a, 128, 1)[:, :k]
        wide_b = np.repeat(wide_b, 128, 0)[:k]
    if kind == "squares":
        wide_b = np.repeat(wide_b, 128, 1)[:, :n]
    return strata.tensor(a).to(device), strata.tensor(b).to(device), wide_a, wide_b


def error(got, expected, a, b):
    """Relative to the sum of the absolute products: the bound of rounding errors."""
    return (np.abs(got.to(strata.float64).cpu().numpy() - expected) / (np.abs(a) @ np.abs(b) + 1e-30)).max(initial=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)], ids=str)
@pytest.mark.parametrize("kind", ["numbers", "rows", "blocks", "squares"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@every_float_kernel
def test_scaled_products(kernel, size, kind, types, device):
    m, n, k = size
    x, a = values((m, k), types[0], device, 1)
    y, b = values((k, n), types[1], device, 2)
    scale_a, scale_b, wide_a, wide_b = scales(kind, m, n, k, device)
    expected = (a * wide_a) @ (b * wide_b)
    for order in ("columns", "rows"):
        for fast in (True, False):
            options = dict(out_dtype=strata.float32, use_fast_accum=fast)
            got = run(kernel, strata._scaled_mm, x, arranged(y, order), scale_a, scale_b, **options)
            assert got.dtype == strata.float32
            assert error(got, expected, a * wide_a, b * wide_b) < (SUMS_ON_HOPPER if device == "cuda" else 2e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16, strata.float32], ids=str)
@pytest.mark.parametrize("kind", ["numbers", "rows"])
@every_float_kernel
def test_bias_and_dtype_of_the_result(kernel, kind, dtype, device):
    m, n, k = 33, 80, 64
    x, a = values((m, k), E4M3, device, 3)
    y, b = values((k, n), E4M3, device, 4)
    scale_a, scale_b, wide_a, wide_b = scales(kind, m, n, k, device)
    bias, row = values((n,), dtype, device, 5)
    options = dict(bias=bias, out_dtype=dtype, use_fast_accum=True)
    got = run(kernel, strata._scaled_mm, x, y, scale_a, scale_b, **options)
    assert got.dtype == dtype
    rounding = {strata.bfloat16: 2**-8, strata.float16: 2**-11, strata.float32: 0}[dtype]
    assert error(got, (a * wide_a) @ (b * wide_b) + row, a * wide_a, b * wide_b) < rounding + SUMS_ON_HOPPER


@pytest.mark.parametrize("device", DEVICES)
def test_results_of_8_bits_are_scaled_and_saturate(device):
    x, y = (strata.full(s, 16.0, device=device).to(E4M3) for s in ((4, 8), (8, 4)))
    one = strata.tensor(1.0, device=device)
    assert strata._scaled_mm(x, y, one, one).dtype == E4M3
    assert strata._scaled_mm(x, y, one, one).float().tolist() == [[448.0] * 4] * 4
    got = strata._scaled_mm(x, y, one, one, scale_result=strata.tensor(0.125, device=device))
    assert got.float().tolist() == [[256.0] * 4] * 4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shapes", [((1, 2), ()), ((3, 1), (2, 1)), ((3, 1), ()), ((), (1, 2))], ids=str)
def test_factors_have_scales_of_different_kinds(shapes, device):
    x, a = values((3, 256), E4M3, device, 6)
    y, b = values((256, 2), E4M3, device, 7)
    if shapes[0] == (1, 2):  # squares of 128 rows
        x, a = x[:2], a[:2]
    scale_a, scale_b = (np.random.default_rng(8).uniform(0.5, 2, s).astype(np.float32) for s in shapes)
    wide_a = np.repeat(scale_a, 128, 1) if shapes[0] == (1, 2) else scale_a
    wide_b = np.repeat(scale_b, 128, 0) if shapes[1] == (2, 1) else scale_b
    for dtype in (strata.float32, strata.float64, strata.bfloat16):
        got = strata._scaled_mm(
            x, y, *(strata.tensor(s).to(device) for s in (scale_a, scale_b)), out_dtype=dtype, use_fast_accum=True
        )
        assert got.dtype == dtype
        rounding = 2**-8 if dtype == strata.bfloat16 else 0
        assert error(got, (a * wide_a) @ (b * wide_b), a * wide_a, b * wide_b) < rounding + SUMS_ON_HOPPER


@pytest.mark.parametrize("device", DEVICES)
def test_scale_result_is_for_results_of_8_bits(device):
    x, y = (strata.ones(s, device=device).to(E4M3) for s in ((4, 8), (8, 6)))
    one, half = strata.tensor(1.0, device=device), strata.tensor(0.5, device=device)
    assert strata._scaled_mm(x, y, one, one, scale_result=half).float().unique().tolist() == [4.0]
    assert strata._scaled_mm(x, y, one, one, scale_result=half, out_dtype=strata.float32).unique().tolist() == [8.0]


@pytest.mark.parametrize("device", DEVICES)
def test_scales_that_do_not_fit(device):
    x, y = (strata.ones(s, device=device).to(E4M3) for s in ((4, 8), (8, 6)))
    one = strata.tensor(1.0, device=device)
    for bad in (strata.ones(4), strata.ones(3, 1), strata.ones(1, 4)):
        with pytest.raises(RuntimeError, match="one per row"):
            strata._scaled_mm(x, y, bad.to(device), one)
    with pytest.raises(RuntimeError, match="float32"):
        strata._scaled_mm(x, y, one.double(), one)
    with pytest.raises(RuntimeError, match="one number per column"):
        strata._scaled_mm(x, y, one, one, bias=strata.ones(4, device=device))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        strata._scaled_mm(x, x, one, one)
    with pytest.raises(RuntimeError, match="floating-point"):
        strata._scaled_mm(x, y, one, one, out_dtype=strata.int32)


def test_explain_lists_the_kernels():
    x = strata.ones(64, 64, device=DEVICE).to(E4M3)
    one = strata.tensor(1.0, device=DEVICE)
    lines = strata.explain(strata._scaled_mm, x, x.t(), one, one, use_fast_accum=True, out_dtype=strata.bfloat16)
    assert [name for op, name, _ in lines if op == "_scaled_mm"][:2] == ["hopper_ahead", "cublaslt"]
