"""strata.gemm.compile: int8, float8 and TF32 factors, two results, amax, and epilogues that read tensors. References are
integers or float64. test_virtual_hopper.py runs them on wgmma too."""

import itertools

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from processes import run as run_process
from strata import gemm

F = strata.nn.functional
FLOAT8 = [strata.float8_e4m3fn, strata.float8_e5m2]
HALVES = [strata.bfloat16, strata.float16]
SIZES = [(1, 1, 1), (17, 33, 65), (64, 64, 64), (130, 70, 31), (3, 200, 40), (200, 264, 136), (16, 8, 128)]


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def rounded(values, dtype):
    return strata.tensor(np.asarray(values, dtype=np.float64)).to(dtype).to(strata.float64).numpy()


def exactly(got, want, dtype):
    assert got.dtype == dtype
    np.testing.assert_array_equal(wide(got), rounded(want, dtype))


def integers(rng, *shape, dtype, least=-3, most=4):
    return strata.tensor(rng.integers(least, most, shape).astype(np.float64)).to(dtype).to(DEVICE)


def ordered(t, transposed):
    return t.transpose(-2, -1).contiguous().transpose(-2, -1) if transposed else t


def int8s(rng, *shape):
    return strata.tensor(rng.integers(-128, 128, shape).astype(np.int8)).to(DEVICE)


@pytest.mark.parametrize("seed", range(3))
def test_int8_has_exact_sums(seed):
    rng = np.random.default_rng(seed)
    product = gemm.compile(strata.int8)
    for m, n, k in [*SIZES, tuple(rng.integers(1, 150, 3)), (5, 7, 3000)]:
        a, b = int8s(rng, m, k), int8s(rng, k, n)
        want = wide(a).astype(np.int64) @ wide(b).astype(np.int64)
        for left, right in itertools.product([False, True], repeat=2):
            got = product(ordered(a, left), ordered(b, right))
            assert got.dtype == strata.int32
            np.testing.assert_array_equal(got.cpu().numpy(), want)


def test_int8_results_of_all_dtypes():
    rng = np.random.default_rng(1)
    a, b = int8s(rng, 60, 45), int8s(rng, 45, 52)
    acc = wide(a) @ wide(b)
    scale = strata.tensor(rng.uniform(0.001, 0.01, 52)).float().to(DEVICE)
    for out in (strata.float32, strata.bfloat16, strata.float16, strata.float64):
        got = wide(gemm.compile(strata.int8, "acc * scale[n]", out_dtype=out)(a, b, scale=scale))
        np.testing.assert_allclose(got, acc * wide(scale), rtol=1e-2 if strata.finfo(out).bits == 16 else 1e-6)
    small = gemm.compile(strata.int8, "acc * scale[n]", out_dtype=strata.int8)(a, b, scale=scale)
    assert small.dtype == strata.int8
    want = np.clip(np.rint(acc.astype(np.float32) * wide(scale).astype(np.float32)), -128, 127)
    np.testing.assert_array_equal(wide(small), want)
    exactly(gemm.compile(strata.int8, "relu(acc)", out_dtype=strata.int32)(a, b), np.maximum(acc, 0), strata.int32)
    got = wide(gemm.compile(strata.int8, "gelu(acc * s)", out_dtype=strata.float32)(a, b, s=1e-4))
    np.testing.assert_allclose(got, F.gelu(strata.tensor(acc * 1e-4)).numpy(), rtol=1e-5, atol=1e-6)
    got = gemm.compile(strata.int8, "gelu(acc)", out_dtype=strata.float32)(a, b)
    np.testing.assert_allclose(wide(got), np.maximum(acc, 0), atol=1)


@pytest.mark.parametrize("pair", list(itertools.product(FLOAT8, repeat=2)), ids=str)
def test_float8(pair):
    rng = np.random.default_rng(2)
    product = gemm.compile(pair[0], out_dtype=strata.float32)
    for m, n, k in [*SIZES, tuple(rng.integers(1, 150, 3))]:
        a, b = integers(rng, m, k, dtype=pair[0]), integers(rng, k, n, dtype=pair[1])
        for left, right in itertools.product([False, True], repeat=2):
            exactly(product(ordered(a, left), ordered(b, right)), wide(a) @ wide(b), strata.float32)
    assert gemm.compile(pair[0])(a, b).dtype == strata.bfloat16


@pytest.mark.parametrize("out", FLOAT8, ids=str)
def test_float8_results_with_scale_and_amax(out):
    rng = np.random.default_rng(3)
    a = strata.tensor(rng.standard_normal((70, 48))).to(strata.bfloat16).to(DEVICE)
    b = strata.tensor(rng.standard_normal((48, 90))).to(strata.bfloat16).to(DEVICE)
    kernel = gemm.compile(strata.bfloat16, ("acc * scale", "acc"), out_dtype=(out, strata.float32), amax=True)
    for scale in (1.0, 3e-6, 1e-3, 7.0, 1e3, 1e9):
        small, exact, amax = kernel(a, b, scale=scale)
        values = wide(exact).astype(np.float32) * np.float32(scale)
        assert amax.dtype == strata.float32 and amax.shape == () and amax.item() == np.abs(values).max()
        assert small.dtype == out
        np.testing.assert_array_equal(wide(small), strata.tensor(values).to(out).to(strata.float64).numpy())


@pytest.mark.parametrize("seed", range(2))
def test_tf32(seed):
    rng = np.random.default_rng(seed)
    product = gemm.compile(strata.float32, tf32=True)
    plain = gemm.compile(strata.float32)
    for m, n, k in [*SIZES, tuple(rng.integers(1, 150, 3))]:
        a, b = integers(rng, m, k, dtype=strata.float32), integers(rng, k, n, dtype=strata.float32)
        for left, right in itertools.product([False, True], repeat=2):
            exactly(product(ordered(a, left), ordered(b, right)), wide(a) @ wide(b), strata.float32)
    a = strata.tensor(rng.standard_normal((100, 300))).float().to(DEVICE)
    b = strata.tensor(rng.standard_normal((300, 90))).float().to(DEVICE)
    want = wide(a) @ wide(b)
    error = np.linalg.norm(wide(product(a, b)) - want) / np.linalg.norm(want)
    assert 1e-5 < error < 1e-3  # the factors lose bits, the sums do not
    assert np.linalg.norm(wide(plain(a, b)) - want) / np.linalg.norm(want) < 1e-6


@pytest.mark.parametrize("dtype", [strata.int8, strata.float8_e4m3fn, "tf32"], ids=str)
def test_addresses_strides_and_batches(dtype):
    element, settings = (strata.float32, {"tf32": True}) if dtype == "tf32" else (dtype, {})
    product = gemm.compile(element, "acc + bias[n]", out_dtype=strata.float32, **settings)
    rng = np.random.default_rng(4)
    m, n, k = 40, 56, 72
    bias = integers(rng, n, dtype=strata.float32)
    for offset in range(1, 18):
        a = integers(rng, m * k + 32, dtype=element)[offset : offset + m * k].view(m, k)
        b = integers(rng, k, n + 32, dtype=element)[:, offset : offset + n]
        exactly(product(a, b, bias=bias), wide(a) @ wide(b) + wide(bias), strata.float32)
    a, b = integers(rng, 70, 120, dtype=element)[::2, ::3], integers(rng, 80, 168, dtype=element)[::2, ::3]
    exactly(product(a, b, bias=bias), wide(a) @ wide(b) + wide(bias), strata.float32)
    one = integers(rng, 1, 1, dtype=element)
    got = product(one.expand(5, 7), one.expand(7, n), bias=bias)
    exactly(got, 7 * wide(one)[0, 0] ** 2 + np.tile(wide(bias), (5, 1)), strata.float32)
    for left, right in [((3,), ()), ((), (2, 3)), ((2, 1), (1, 3)), ((1, 1, 2), (3, 1, 1)), ((0,), ())]:
        a, b = integers(rng, *left, 9, 25, dtype=element), integers(rng, *right, 25, n, dtype=element)
        exactly(product(a, b, bias=bias), wide(a) @ wide(b) + wide(bias), strata.float32)


@pytest.mark.parametrize("dtype", [strata.int8, strata.float8_e5m2, strata.bfloat16, "tf32"], ids=str)
def test_empty_dimensions(dtype):
    element, settings = (strata.float32, {"tf32": True}) if dtype == "tf32" else (dtype, {})
    kernel = gemm.compile(element, ("acc + bias[n]", "acc"), out_dtype=strata.float32, amax=True, **settings)
    bias = strata.full((5,), -2, dtype=strata.float32, device=DEVICE)

    def of(m, k, n):
        a = strata.ones(m, k, device=DEVICE).to(element)
        return kernel(a, strata.ones(k, n, device=DEVICE).to(element), bias=bias[:n])

    for m, n in ((0, 5), (4, 0)):
        first, second, amax = of(m, 3, n)
        assert first.shape == second.shape == (m, n) and amax.item() == 0
    first, second, amax = of(3, 0, 5)
    assert first.tolist() == [[-2.0] * 5] * 3 and second.tolist() == [[0.0] * 5] * 3 and amax.item() == 2


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_epilogues_that_read_tensors(dtype, seed):
    rng = np.random.default_rng(seed)
    for m, n, k in [(128, 256, 64), (130, 264, 72), (64, 40, 64), (200, 520, 136), (3, 48, 64), (90, 77, 64)]:
        a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n + 3, dtype=dtype)[:, :n]
        b = b.t().contiguous().t() if k % 8 == 0 and seed else b
        given = {
            "bias": integers(rng, n, dtype=dtype), "column": integers(rng, m, dtype=strata.float32),
            "matrix": integers(rng, m, n, dtype=dtype), "float_matrix": integers(rng, m, n, dtype=strata.float32),
            "odd": integers(rng, m, n + 1, dtype=dtype)[:, 1:], "turned": integers(rng, n, m, dtype=strata.int64).t(),
            "row": integers(rng, 1, n, dtype=dtype), "spread": integers(rng, m, 1, dtype=strata.int8),
        }  # fmt: skip
        p, v = wide(a) @ wide(b), {name: wide(x) for name, x in given.items()}
        column = v["column"][:, None]
        for epilogue, want in {
            "relu(acc + bias[n])": np.maximum(p + v["bias"], 0),
            "acc + matrix[m, n]": p + v["matrix"],
            "acc * column[m] + bias[n]": p * column + v["bias"],
            "acc + float_matrix[m, n] + matrix[m][n] * 2": p + v["float_matrix"] + 2 * v["matrix"],
            "acc + odd[m, n] - turned[m, n]": p + v["odd"] - v["turned"],
            "acc + row[m, n] - spread[m, n] + k": p + v["row"] - v["spread"] + 3,
        }.items():
            kernel = gemm.compile(dtype, epilogue)
            extras = {name: given.get(name, 3) for name in kernel.extras}
            exactly(kernel(a, b, **extras), want, dtype)


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float64], ids=str)
def test_two_results(dtype):
    rng = np.random.default_rng(5)
    both = gemm.compile(dtype, ("relu(acc + bias[n])", "acc + bias[n] - other[m, n]"))
    for batch, (m, n, k) in itertools.product([(), (2,), (2, 3)], [(40, 64, 32), (33, 65, 24), (200, 136, 64)]):
        a, b = integers(rng, *batch, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
        bias, other = integers(rng, n, dtype=dtype), integers(rng, *batch, m, n, dtype=dtype)
        want = wide(a) @ wide(b) + wide(bias)
        first, second = both(a, b, bias=bias, other=other)
        exactly(first, np.maximum(want, 0), dtype)
        exactly(second, want - wide(other), dtype)
        outs = strata.empty_like(first), strata.empty(*batch, n, m, dtype=dtype, device=DEVICE).transpose(-2, -1)
        got = both(a, b, bias=bias, other=other, out=outs)
        assert got[0] is outs[0] and got[1] is outs[1]
        exactly(outs[0], np.maximum(want, 0), dtype)
        exactly(outs[1], want - wide(other), dtype)
    mixed = gemm.compile(dtype, ("acc", "acc"), out_dtype=(strata.float32, strata.float16), amax=True)
    first, second, amax = mixed(a, b)
    exactly(first, wide(a) @ wide(b), strata.float32)
    exactly(second, wide(a) @ wide(b), strata.float16)
    assert amax.item() == np.abs(wide(a) @ wide(b)).max()
    a.requires_grad_()
    first, second, amax = gemm.compile(dtype, ("acc", "acc"), backward="grad_acc = grad_out", amax=True)(a, b)
    assert first.requires_grad and not second.requires_grad and not amax.requires_grad
    first.sum().backward()
    exactly(a.grad, np.broadcast_to(wide(b).sum(1), a.shape), dtype)
    with pytest.raises(RuntimeError, match="overlaps another operand"):
        both(a.detach(), b, bias=bias, other=other, out=(outs[0], outs[0]))
    with pytest.raises(TypeError, match="expected 2 outputs, got 1"):
        both(a.detach(), b, bias=bias, other=other, out=outs[0])


def test_amax_counts_what_is_inside_only():
    kernel = gemm.compile(strata.bfloat16, "acc + bias[n] * 100", amax=True)
    x = strata.ones(70, 64, dtype=strata.bfloat16, device=DEVICE)
    bias = strata.zeros(72, dtype=strata.bfloat16, device=DEVICE)
    bias[71] = 1
    y, amax = kernel(x, strata.ones(64, 71, dtype=x.dtype, device=DEVICE), bias=bias[:71])
    assert amax.item() == 64 and y.shape == (70, 71)
    x[3, 5] = float("nan")
    assert np.isnan(kernel(x, x.t(), bias=bias[:70])[1].item())
    x[3, 5] = float("-inf")
    assert kernel(x, strata.ones(64, 8, dtype=x.dtype, device=DEVICE), bias=bias[:8])[1].item() == float("inf")


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"dtype": strata.int16}, TypeError, "got int16"),
        ({"dtype": strata.bfloat16, "tf32": True}, TypeError, "tf32 is for float32"),
        ({"dtype": strata.bfloat16, "out_dtype": strata.int32}, TypeError, "for factors of int8"),
        ({"dtype": strata.int8, "out_dtype": strata.int64}, TypeError, "got int64"),
        ({"dtype": strata.int8, "tile": (64, 64, 16)}, ValueError, "multiple of 32"),
        ({"dtype": strata.int8, "epilogue": ("acc",)}, ValueError, "one or two epilogues"),
        ({"dtype": strata.int8, "epilogue": ("acc", "")}, ValueError, "empty"),
        ({"dtype": strata.int8, "epilogue": ("acc", 3)}, TypeError, "must be a str"),
        ({"dtype": strata.bfloat16, "out_dtype": (strata.bfloat16,)}, ValueError, "one or two epilogues"),
    ],
)  # fmt: skip
def test_bad_configurations(settings, error, text):
    with pytest.raises(error, match=text):
        gemm.compile(**settings)


def test_wrong_factors():
    x = strata.ones(8, 8, dtype=strata.int8, device=DEVICE)
    with pytest.raises(TypeError, match="expected factors of int8, got uint8"):
        gemm.compile(strata.int8)(x, x.to(strata.uint8))
    with pytest.raises(TypeError, match="expected factors of float8_e4m3fn, got int8"):
        gemm.compile(strata.float8_e4m3fn)(x, x)
    meta = strata.ones(2, 8, 8, device="meta").to(strata.float8_e5m2)
    first, amax = gemm.compile(strata.float8_e4m3fn, amax=True)(meta, meta)
    assert first.shape == (2, 8, 8) and first.dtype == strata.bfloat16 and amax.shape == ()


def test_tiles_of_all_types():
    rng = np.random.default_rng(6)
    for dtype, tile in [
        (strata.int8, (64, 64, 64)), (strata.int8, (32, 128, 32)), (strata.float8_e4m3fn, (64, 32, 32)),
        (strata.float32, (64, 64, 16)), (strata.float32, (128, 64, 32)),
    ]:  # fmt: skip
        kernel = gemm.compile(dtype, tile=tile, stages=2, tf32=dtype == strata.float32, out_dtype=strata.float32)
        a, b = integers(rng, 77, 150, dtype=dtype), integers(rng, 150, 101, dtype=dtype)
        exactly(kernel(a, b), wide(a) @ wide(b), strata.float32)


def test_older_gpus_say_what_is_missing():
    code = """
import strata
x = strata.ones(64, 64, dtype=strata.float16, device="vgpu")
for f in (strata.mm, strata.nn.functional.linear_activation):
    lines = {name: reason for _, name, reason in strata.explain(f, x, x)}
    print(*(lines[name] for name in ("tensor_cores", "compiled") if name in lines), sep="\\n")
try:
    strata.gemm.compile(strata.float16)(x, x)
except NotImplementedError as error:
    print(error)
"""
    lines = run_process(code, {"STRATA_VGPU_DEVICES": "turing"}).splitlines()
    assert len(lines) >= 3 and lines[:2] == ["for GPUs of compute capability 8.0 and newer"] * 2
    assert "needs a GPU of compute capability 8.0 or newer" in lines[-1] and lines[-1].endswith("has 7.5")
