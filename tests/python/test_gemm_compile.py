"""strata.gemm.compile: products with a tile and an epilogue of one's own. Small integers exactly, normal numbers against float64."""

import itertools

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from processes import run as run_process
from strata import gemm

F = strata.nn.functional
GPU = getattr(strata, DEVICE)
HALVES = [strata.bfloat16, strata.float16]
DTYPES = [*HALVES, strata.float32, strata.float64]
ERRORS = {strata.bfloat16: 4e-3, strata.float16: 5e-4, strata.float32: 2e-6, strata.float64: 1e-14}


def integers(rng, *shape, dtype, least=-4, most=5):
    return strata.tensor(rng.integers(least, most, shape).astype(np.float64)).to(dtype).to(DEVICE)


def normal(rng, *shape, dtype):
    return strata.tensor(rng.standard_normal(shape)).to(dtype).to(DEVICE)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def rounded(values, dtype):
    return strata.tensor(np.asarray(values, dtype=np.float64)).to(dtype).to(strata.float64).numpy()


def exactly(got, want, dtype):
    assert got.dtype == dtype
    np.testing.assert_array_equal(wide(got), rounded(want, dtype))


def ordered(t, transposed):
    return t.transpose(-2, -1).contiguous().transpose(-2, -1) if transposed else t


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_and_orders_of_both_factors(dtype):
    product = gemm.compile(dtype, tile=(32, 32, 16))
    rng = np.random.default_rng(1)
    sizes = [(1, 1, 1), (17, 33, 65), (32, 32, 16), (65, 40, 31), (1, 70, 24), (70, 1, 8)]
    sizes += [tuple(rng.integers(1, 90, 3))]
    for m, n, k in sizes:
        a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
        for left, right in itertools.product([False, True], repeat=2):
            exactly(product(ordered(a, left), ordered(b, right)), wide(a) @ wide(b), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_normal_numbers(dtype):
    product = gemm.compile(dtype)
    rng = np.random.default_rng(2)
    for m, n, k in [(64, 48, 500), (130, 136, 72)]:
        a, b = normal(rng, m, k, dtype=dtype), normal(rng, k, n, dtype=dtype)
        want = wide(a) @ wide(b)
        assert np.linalg.norm(wide(product(a, b)) - want) <= ERRORS[dtype] * np.linalg.norm(want)


@pytest.mark.parametrize(
    "tile", [(16, 16, 16), (64, 64, 32), (128, 64, 64), (48, 96, 48), (256, 64, 32), (32, 256, 128), (16, 128, 32)]
)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_tiles(tile, dtype):
    rng = np.random.default_rng(3)
    a, b = integers(rng, 77, 150, dtype=dtype), integers(rng, 150, 101, dtype=dtype)
    for stages in (2, 3, 5):
        if stages * (tile[0] + tile[1]) * tile[2] * 2 > 99 << 10:
            continue
        product = gemm.compile(dtype, tile=tile, stages=stages)
        assert product.tile == tile and product.stages == stages
        for left, right in ((False, False), (True, True)):
            exactly(product(ordered(a, left), ordered(b, right)), wide(a) @ wide(b), dtype)


@pytest.mark.parametrize("tile", [(16, 16, 16), (128, 64, 16), (32, 128, 32)])
@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_tiles_without_tensor_cores(tile, dtype):
    rng = np.random.default_rng(4)
    a, b = integers(rng, 77, 50, dtype=dtype), integers(rng, 50, 101, dtype=dtype)
    for left, right in itertools.product([False, True], repeat=2):
        exactly(gemm.compile(dtype, tile=tile, stages=2)(ordered(a, left), ordered(b, right)), wide(a) @ wide(b), dtype)


def test_warps():
    rng = np.random.default_rng(5)
    a, b = integers(rng, 64, 64, dtype=strata.bfloat16), integers(rng, 64, 64, dtype=strata.bfloat16)
    for warps in ((1, 1), (4, 1), (1, 4), (4, 4), (2, 2)):
        product = gemm.compile(strata.bfloat16, tile=(64, 64, 32), warps=warps)
        assert product.warps == warps
        exactly(product(a, b), wide(a) @ wide(b), strata.bfloat16)


@pytest.mark.parametrize(
    ("dtype", "offset"), [*itertools.product(HALVES, range(1, 9)), (strata.float32, 1), (strata.float64, 1)], ids=str
)
def test_addresses_and_rows_off_the_vectors(offset, dtype):
    m, n, k = 40, 56, 72
    rng = np.random.default_rng(offset)
    product = gemm.compile(dtype, "acc + 1", tile=(64, 64, 16))
    a = integers(rng, m * k + 16, dtype=dtype)[offset : offset + m * k].view(m, k)
    b = integers(rng, k, n + 16, dtype=dtype)[:, offset : offset + n]
    out = strata.full((m, n + 16), float("nan"), dtype=dtype, device=DEVICE)
    part = out[:, offset : offset + n]
    assert product(a, b, out=part) is part
    exactly(part, wide(a) @ wide(b) + 1, dtype)
    assert np.isnan(wide(out)[:, :offset]).all() and np.isnan(wide(out)[:, offset + n :]).all()


def test_strides_of_all_kinds():
    rng = np.random.default_rng(6)
    dtype = strata.bfloat16
    product = gemm.compile(dtype, tile=(32, 32, 16))
    a, b = integers(rng, 70, 120, dtype=dtype)[::2, ::3], integers(rng, 80, 99, dtype=dtype)[::2, ::3]
    exactly(product(a, b), wide(a) @ wide(b), dtype)
    one = integers(rng, 1, 1, dtype=dtype)
    exactly(product(one.expand(5, 7), one.expand(7, 3)), np.full((5, 3), 7 * wide(one)[0, 0] ** 2), dtype)
    whole = strata.zeros(99, 35, dtype=dtype, device=DEVICE)
    out = whole.t()[:, ::3]
    exactly(product(a, b, out=out), wide(a) @ wide(b), dtype)
    assert not wide(whole)[1::3].any() and not wide(whole)[2::3].any()


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float32], ids=str)
def test_batches_broadcast(dtype):
    rng = np.random.default_rng(7)
    product = gemm.compile(dtype, "acc * scale + residual[m, n] + bias[n] + batch", tile=(32, 32, 16))
    for left, right in [
        ((3,), ()),
        ((), (2, 3)),
        ((2, 1), (1, 3)),
        ((2, 3), (2, 3)),
        ((1, 1, 2), (3, 1, 1)),
        ((0,), ()),
    ]:
        a, b = integers(rng, *left, 9, 24, dtype=dtype), integers(rng, *right, 24, 17, dtype=dtype)
        want = wide(a) @ wide(b)
        batch = want.shape[:-2]
        residual, bias = integers(rng, *batch[-1:], 9, 17, dtype=dtype), integers(rng, *batch, 17, dtype=strata.float32)
        scale = integers(rng, *batch, dtype=strata.int32)
        index = np.arange(np.prod(batch, dtype=int)).reshape((*batch, 1, 1))
        want = want * wide(scale)[..., None, None] + wide(residual) + wide(bias)[..., None, :] + index
        exactly(product(a, b, scale=scale, residual=residual, bias=bias), want, dtype)
    a = integers(rng, 4, 3, 8, 16, dtype=dtype).transpose(0, 1)  # strides of a batch that cannot be merged
    b = integers(rng, 3, 1, 16, 8, dtype=dtype)
    exactly(gemm.compile(dtype)(a, b), wide(a) @ wide(b), dtype)


def test_empty_dimensions():
    product = gemm.compile(strata.bfloat16, "acc + bias[n]")
    bias = strata.ones(5, dtype=strata.bfloat16, device=DEVICE)

    def of(m, k, n):
        options = {"dtype": strata.bfloat16, "device": DEVICE}
        return product(strata.ones(m, k, **options), strata.ones(k, n, **options), bias=bias[:n])

    assert of(0, 4, 5).shape == (0, 5) and of(4, 3, 0).shape == (4, 0)
    assert of(3, 0, 5).tolist() == [[1.0] * 5] * 3


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float64], ids=str)
def test_helpers_follow_the_ops(dtype):
    rng = np.random.default_rng(8)
    a, b = normal(rng, 20, 30, dtype=dtype), normal(rng, 30, 24, dtype=dtype)
    exact = strata.tensor(wide(a) @ wide(b))
    for epilogue, f in {
        "relu(acc)": F.relu, "gelu(acc)": F.gelu, "gelu_tanh(acc)": lambda x: F.gelu(x, approximate="tanh"),
        "silu(acc)": F.silu, "sigmoid(acc)": strata.sigmoid, "mish(acc)": F.mish, "tanh(acc)": strata.tanh,
        "leaky_relu(acc, decltype(acc)(0.1))": lambda x: F.leaky_relu(x, 0.1), "square(acc)": strata.square,
        "clamp(acc, decltype(acc)(-1), decltype(acc)(2))": lambda x: x.clamp(-1, 2), "expf(acc)": strata.exp,
    }.items():  # fmt: skip
        if dtype == strata.float64 and epilogue.startswith("expf"):
            continue
        got = wide(gemm.compile(dtype, epilogue, tile=(32, 32, 16))(a, b))
        np.testing.assert_allclose(got, f(exact).numpy(), rtol=8e-3 if dtype == strata.bfloat16 else 1e-12, atol=1e-2)


def test_kinds_of_operands():
    rng = np.random.default_rng(9)
    dtype = strata.float16
    a, b = integers(rng, 20, 30, dtype=dtype), integers(rng, 30, 24, dtype=dtype)
    product = wide(a) @ wide(b)
    row, column, matrix = (integers(rng, *s, dtype=strata.float32) for s in ((24,), (20,), (20, 24)))
    m, n = np.arange(20)[:, None], np.arange(24)[None]
    for epilogue, want in {
        "acc * 2 + row[n]": product * 2 + wide(row),
        "acc + column[m]": product + wide(column)[:, None],
        "acc + matrix[m, n]": product + wide(matrix),
        "acc + matrix[m][n]": product + wide(matrix),
        "matrix[m, n] + row[n] * column[m] - acc": wide(matrix) + wide(row) * wide(column)[:, None] - product,
        "m > n ? acc : 0": np.where(m > n, product, 0),
        "acc + row[n / 2]": product + wide(row)[n // 2],
        "acc + row[(n + 1) % 24]": product + wide(row)[(n + 1) % 24],
        "acc + row[n + 20]": product + np.where(n + 20 < 24, wide(row)[(n + 20) % 24], 0),
        "acc + matrix[m - 1, n]": product + np.where(m > 0, wide(matrix)[m - 1, n], 0),
        "acc\n  + row[n]\n  * k": product + wide(row) * 3,
    }.items():
        kernel = gemm.compile(dtype, epilogue, tile=(32, 32, 16))
        given = {"row": row, "column": column, "matrix": matrix, "k": 3}
        exactly(kernel(a, b, **{name: given[name] for name in kernel.extras}), want, dtype)


def test_numbers_and_dtypes_of_operands():
    rng = np.random.default_rng(10)
    a, b = integers(rng, 20, 32, dtype=strata.bfloat16), integers(rng, 32, 24, dtype=strata.bfloat16)
    product = wide(a) @ wide(b)
    kernel = gemm.compile(strata.bfloat16, "acc * s", out_dtype=strata.float32)
    for s in (
        2,
        0.5,
        True,
        np.float32(0.25),
        strata.tensor(1.5),
        strata.tensor([0.125], device=DEVICE),
        strata.tensor(3, device=DEVICE),
    ):
        exactly(kernel(a, b, s=s), product * float(s), strata.float32)
    kernel = gemm.compile(strata.bfloat16, "labels[m] == n ? acc : other[n]", out_dtype=strata.float64)
    labels = strata.tensor(np.arange(20) % 24).to(DEVICE)
    for other in (
        strata.float16,
        strata.bfloat16,
        strata.float64,
        strata.int8,
        strata.uint8,
        strata.bool,
        strata.int64,
    ):
        values = strata.tensor(np.arange(24) % 2).to(other).to(DEVICE)
        want = np.where((np.arange(20) % 24)[:, None] == np.arange(24), product, np.arange(24) % 2)
        exactly(kernel(a, b, labels=labels, other=values), want, strata.float64)


def test_every_result_dtype():
    rng = np.random.default_rng(11)
    for dtype, out in itertools.product(DTYPES, DTYPES):
        a, b = integers(rng, 33, 17, dtype=dtype), integers(rng, 17, 40, dtype=dtype)
        exactly(gemm.compile(dtype, out_dtype=out, tile=(32, 32, 16))(a, b), wide(a) @ wide(b), out)


def test_functions_of_the_preamble():
    kernel = gemm.compile(
        strata.float32,
        "twice(relu(acc))",
        preamble="__device__ float twice(float x) { return 2 * x; }\n__device__ float relu(float x) { return x + 1; }",
    )
    x = strata.ones(4, 4, device=DEVICE)
    assert kernel(x, x).tolist() == [[10.0] * 4] * 4  # the preamble's relu comes before the built-in one


def test_in_place_residual():
    rng = np.random.default_rng(12)
    a, b, c = (integers(rng, 40, 40, dtype=strata.bfloat16) for _ in range(3))
    want = wide(a) @ wide(b) + wide(c)
    version = c._version
    gemm.compile(strata.bfloat16, "acc + c[m, n]")(a, b, c=c, out=c)
    exactly(c, want, strata.bfloat16)
    assert c._version > version


def test_gradients():
    relu = gemm.compile(
        strata.float64,
        "scale[m] * relu(acc + bias[n]) + k * residual[m, n]",
        backward="T on = acc + bias > 0 ? scale : 0; grad_acc = grad_out * on; grad_bias = grad_out * on;"
        "grad_scale = acc + bias > 0 ? grad_out * (acc + bias) : 0; grad_residual = grad_out * k",
        tile=(16, 16, 16),
    )
    rng = np.random.default_rng(13)
    a, b = normal(rng, 2, 5, 4, dtype=strata.float64), normal(rng, 4, 3, dtype=strata.float64)
    scale, bias, residual = (normal(rng, *s, dtype=strata.float64) for s in ((5,), (3,), (2, 5, 3)))
    inputs = [x.requires_grad_() for x in (a, b, scale, bias, residual)]
    assert strata.autograd.gradcheck(
        lambda a, b, scale, bias, residual: relu(a, b, scale=scale, bias=bias, residual=residual, k=2.0), inputs
    )
    plain = gemm.compile(strata.float64, "acc + 1")
    with pytest.raises(RuntimeError, match="out= is not differentiable"):
        plain(a, b, out=strata.empty(2, 5, 3, dtype=strata.float64, device=DEVICE))
    with pytest.raises(NotImplementedError, match="compile it with backward="):
        plain(a, b).sum().backward()
    with strata.no_grad():
        assert not plain(a, b).requires_grad
    with pytest.raises(NotImplementedError, match="no formula for grad_bias"):
        gemm.compile(strata.float64, "acc + bias[n]", backward="grad_acc = grad_out")(a, b, bias=bias).sum().backward()
    with pytest.raises(ValueError, match="backward uses 'zork'"):
        gemm.compile(strata.float64, "acc + bias[n]", backward="grad_acc = grad_out * zork")
    with pytest.raises(ValueError, match="backward assigns 'grad_zork'"):
        gemm.compile(strata.float64, "acc", backward="grad_zork = grad_out")


def test_meta_and_cpu():
    kernel = gemm.compile(strata.bfloat16, "relu(acc + bias[n])", out_dtype=strata.float32)
    x = strata.ones(2, 8, 8, dtype=strata.bfloat16, device="meta")
    y = kernel(x, x[0], bias=strata.ones(8, device="meta"))
    assert y.shape == (2, 8, 8) and y.dtype == strata.float32 and y.device.type == "meta"
    x = strata.ones(8, 8, dtype=strata.bfloat16)
    with pytest.raises(RuntimeError, match="is on cpu, but the kernel needs tensors on a cuda or vgpu device"):
        kernel(x, x, bias=strata.ones(8))


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"tile": (100, 128, 32)}, ValueError, "multiples of 16 from 16 to 256"),
        ({"tile": (128, 128, 0)}, ValueError, "out of range"),
        ({"tile": (512, 128, 32)}, ValueError, "multiples of 16 from 16 to 256"),
        ({"tile": (128, 128)}, ValueError, "a tuple of 3 ints"),
        ({"tile": 128}, TypeError, "a tuple of 3 ints"),
        ({"tile": (48, 64, 16), "dtype": strata.float32}, ValueError, "16, 32, 64 or 128"),
        ({"stages": 1}, ValueError, "expected 2 to 8"),
        ({"stages": 2.5}, TypeError, "must be an int"),
        ({"warps": (3, 1)}, ValueError, "3x1 warps cannot divide"),
        ({"warps": (1, 1)}, ValueError, "do not fit its registers"),
        ({"warps": (2, 2), "dtype": strata.float32}, ValueError, "tensor cores only, not for float32"),
        ({"dtype": strata.int32}, TypeError, "dtype must be float16"),
        ({"dtype": "zork"}, TypeError, "dtype"),
        ({"out_dtype": strata.int32}, TypeError, "out_dtype must be"),
        ({"epilogue": ""}, ValueError, "epilogue is empty"),
        ({"epilogue": "acc; acc"}, ValueError, "one C\\+\\+ expression"),
        ({"epilogue": "acc // more"}, ValueError, "one C\\+\\+ expression"),
        ({"epilogue": "acc + bias[n"}, ValueError, "not closed"),
        ({"epilogue": "acc + x[m, n, 1]"}, ValueError, "has 3 indices"),
        ({"epilogue": "x[n] + x[m, n]"}, ValueError, "different numbers of indices"),
        ({"epilogue": "m[n]"}, ValueError, "reserved"),
        ({"epilogue": "acc + strata_p"}, ValueError, "reserved"),
        ({"epilogue": "+".join(f"x{i}" for i in range(9))}, ValueError, "uses 9 tensors and numbers; at most 8"),
        ({"epilogue": 3}, TypeError, "must be a str"),
        ({"name": "2x"}, ValueError, "not a name for a kernel"),
        ({"options": "-DA"}, TypeError, "options"),
    ],
)  # fmt: skip
def test_bad_configurations(settings, error, text):
    with pytest.raises(error, match=text):
        gemm.compile(**{"dtype": strata.bfloat16, **settings})


def test_bad_calls():
    kernel = gemm.compile(strata.bfloat16, "acc + bias[n] * s")
    x = strata.ones(8, 8, dtype=strata.bfloat16, device=DEVICE)
    bias = x[0]
    good = {"bias": bias, "s": 2}
    exactly(kernel(x, x, **good), np.full((8, 8), 10), strata.bfloat16)
    for a, b, extras, error, text in [
        (x, x, {"bias": bias}, TypeError, "needs 's'"),
        (x, x, {**good, "zork": 1}, TypeError, "'zork' is unknown"),
        (x.float(), x, good, TypeError, "expected factors of bfloat16, got float32"),
        (x, x[0], good, RuntimeError, "two dimensions or more"),
        (x, x[:7], good, RuntimeError, "inner sizes 8 and 7"),
        (x.expand(2, 8, 8), x.expand(3, 8, 8), good, RuntimeError, "do not broadcast"),
        (x, x.cpu(), good, RuntimeError, "the second factor is on cpu"),
        (x, x, {**good, "bias": bias.cpu()}, RuntimeError, "'bias' is on cpu"),
        (x, x, {**good, "bias": bias[:7]}, RuntimeError, "index n of the epilogue goes to 8"),
        (x, x, {**good, "bias": x}, RuntimeError, "does not broadcast to that of the result"),
        (x, x, {**good, "bias": 1.0}, TypeError, "must be a tensor, got a number"),
        (x, x, {**good, "s": "2"}, TypeError, "must be a tensor or a number, got str"),
        (x, x, {**good, "s": bias}, RuntimeError, "does not broadcast"),
        (x, x, {**good, "s": bias.to(strata.float8_e4m3fn)[:1].reshape(())}, NotImplementedError, "no arithmetic"),
        (x, x, {**good, "out": x}, RuntimeError, "overlaps another operand"),
        (x, x, {**good, "out": bias.expand(8, 8)}, RuntimeError, "share memory"),
        (x, x, {**good, "out": x.float()}, TypeError, "the output is float32"),
        (x, x, {**good, "out": x[:7].clone()}, RuntimeError, "the output has shape"),
        (1, x, good, TypeError, "Tensor"),
    ]:
        with pytest.raises(error, match=text):
            kernel(a, b, **extras)


def test_a_tile_that_does_not_fit_shared_memory():
    kernel = gemm.compile(strata.bfloat16, tile=(256, 128, 128), stages=4)
    x = strata.ones(8, 8, dtype=strata.bfloat16, device=DEVICE)
    with pytest.raises(
        ValueError, match=r"256x128x128 with 4 stages needs 393216 bytes of shared memory, but .* allows"
    ):
        kernel(x, x)


def test_compile_errors_name_the_line():
    x = strata.ones(8, 8, dtype=strata.bfloat16, device=DEVICE)
    with pytest.raises(strata.cuda.CompileError, match=r'epilogue of mine\(2\): error: identifier "zork" is undefined'):
        gemm.compile(strata.bfloat16, "acc +\n  zork(acc)", name="mine")(x, x)
    with pytest.raises(strata.cuda.CompileError, match=r"preamble of mine\(2\): error"):
        gemm.compile(strata.bfloat16, "f(acc)", preamble="\n__device__ float f(float x) { return x + }", name="mine")(
            x, x
        )


def test_a_kernel_is_compiled_once_and_kept(tmp_path):
    code = f"""
import strata
x = strata.ones(8, 8, dtype=strata.bfloat16, device={DEVICE!r})
y = strata.gemm.compile(strata.bfloat16, "acc * 2")(x, x)
assert y.tolist() == [[16.0] * 8] * 8
"""
    times = []
    for _ in range(2):
        run_process(code, {"STRATA_CACHE_DIR": str(tmp_path), "STRATA_CUDA_CACHE": "1"})
        times.append({file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()})
    assert times[0] and times[0] == times[1]


def test_many_threads_and_streams():
    import threading

    kernel = gemm.compile(strata.bfloat16, "acc + bias[n]", tile=(32, 32, 16))
    rng = np.random.default_rng(14)
    a, b, bias = (integers(rng, *s, dtype=strata.bfloat16) for s in ((40, 32), (32, 24), (24,)))
    want, wrong = wide(a) @ wide(b) + wide(bias), []

    def work():
        with GPU.stream(GPU.Stream()):
            for _ in range(5):
                y = kernel(a, b, bias=bias)
                if not np.array_equal(wide(y), want):
                    wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
