"""Reductions from formulas, with results from NumPy in float64."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE, host, on_gpu
from strata import cuda

SUM = cuda.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "my_sum")
NORM = cuda.reduction("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
LARGEST = cuda.reduction("T x", "T y", "x", "a > b ? a : b", "y = a", None, "largest")
TOLERANCES = {strata.float64: 1e-12, strata.float32: 2e-6, strata.float16: 1e-3, strata.bfloat16: 1e-2}

SHAPES = [
    ((), None), ((1,), None), ((1,), 0), ((5,), 0), ((257,), 0), ((1000,), None), ((3, 4), 0), ((3, 4), 1), ((3, 4), (0, 1)),
    ((3, 4), ()), ((33, 70), 0), ((33, 70), -1), ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (-1, 0)),
    ((7, 1, 9), 1), ((1, 600), 0), ((600, 1), 0), ((2, 1030), 1), ((1030, 2), 0),
]  # fmt: skip


def numpy_axis(axis):
    return tuple(axis) if isinstance(axis, (tuple, list)) else axis


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_over_axes(shape, axis, keepdims):
    x = on_gpu(*shape)
    out = SUM(x, axis=axis, keepdims=keepdims)
    expected = host(x).sum(axis=numpy_axis(axis), keepdims=keepdims)
    assert tuple(out.shape) == expected.shape and out.dtype == strata.float32
    np.testing.assert_allclose(host(out), expected, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_floating_dtypes(dtype):
    x = on_gpu(37, 129, dtype=dtype)
    for axis in (0, 1, None):
        found = NORM(x, axis=axis)
        assert found.dtype == dtype
        expected = np.sqrt((host(x) ** 2).sum(axis=axis))
        np.testing.assert_allclose(host(found), expected, rtol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [strata.int64, strata.int32, strata.int16, strata.int8, strata.uint8, strata.bool])
def test_integers_are_exact(dtype):
    values = np.random.default_rng(3).integers(0, 2 if dtype == strata.bool else 9, (40, 6))
    x = strata.tensor(values.tolist(), device=DEVICE).to(dtype)
    total = cuda.reduction("T x", "int64 y", "x", "a + b", "y = a", 0, "total")
    assert total(x, axis=0).tolist() == values.sum(0).tolist()
    assert total(x).dtype == strata.int64
    assert LARGEST(x, axis=1).tolist() == x.amax(1).tolist()


def test_negative_integers_divide_as_signed():
    mean = cuda.reduction("T x", "int32 y", "x", "a + b", "y = a / n", "0", "mean")
    assert mean(strata.tensor([-6, -4], dtype=strata.int32, device=DEVICE)).item() == -5


@pytest.mark.parametrize("shape", [(200_001,), (3, 70_000), (70_000, 3), (2, 40_000, 2)], ids=str)
def test_many_elements_take_two_steps(shape):
    x = on_gpu(*shape)
    axis = shape.index(max(shape))
    np.testing.assert_allclose(host(SUM(x, axis=axis)), host(x).sum(axis=axis), rtol=1e-5, atol=5e-3)
    exact = strata.ones(shape, device=DEVICE)
    assert host(SUM(exact, axis=axis)).min() == host(SUM(exact, axis=axis)).max() == max(shape)
    np.testing.assert_array_equal(host(LARGEST(x, axis=axis)), host(x).max(axis=axis))


def test_the_same_bits_each_time():
    x = on_gpu(70_001)
    assert len({SUM(x).item() for _ in range(3)}) == 1


def test_strided_and_broadcast_inputs():
    dot = cuda.reduction("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot")
    x, y = on_gpu(6, 8, 10), on_gpu(10, 8, seed=1)
    for a in (x.permute(2, 0, 1), x[::2, 1::3], x[:, :, :1], x.transpose(0, 2)[1:]):
        np.testing.assert_allclose(host(SUM(a, axis=1)), host(a).sum(1), rtol=1e-5, atol=1e-5)
    expected = (host(x) * host(y).T).sum((0, 2))
    np.testing.assert_allclose(host(dot(x, y.t(), axis=(0, 2))), expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(host(dot(x, 2.0)), 2 * host(x).sum(), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(host(SUM(y[:1].expand(5, 8), axis=0)), 5 * host(y)[0], rtol=1e-6)


def test_empty_inputs_give_the_identity():
    for shape, axis in [((0,), None), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), (1, 2))]:
        out = SUM(on_gpu(*shape), axis=axis)
        assert host(out).tolist() == np.zeros(shape).sum(axis=axis).tolist()
    ones = cuda.reduction("T x", "T y", "x", "a * b", "y = a + 1", "1", "product")
    assert ones(on_gpu(0, 2), axis=0).tolist() == [2, 2]
    assert tuple(SUM(on_gpu(0, 3), axis=1).shape) == (0,)
    assert tuple(LARGEST(on_gpu(0, 3), axis=1).shape) == (0,)
    with pytest.raises(ValueError, match="no identity"):
        LARGEST(on_gpu(3, 0), axis=1)


def test_several_outputs_types_and_indices():
    moments = cuda.reduction(
        "T x", "T mean, int64 count, bool large", "x", "a + b", "mean = a / n; count = n; large = a > 10", "0", "moments",
        reduce_type="float64",
    )  # fmt: skip
    x = on_gpu(5, 300)
    mean, count, large = moments(x, axis=1)
    np.testing.assert_allclose(host(mean), host(x).mean(1), rtol=1e-6, atol=1e-6)
    assert count.tolist() == [300] * 5 and large.tolist() == (host(x).sum(1) > 10).tolist()
    weighted = cuda.reduction("T x", "T y", "x * i", "a + b", "y = a", "0", "weighted")
    np.testing.assert_allclose(host(weighted(x, axis=1)), host(x) @ np.arange(300), rtol=1e-4, atol=1e-1)


def test_outputs_that_are_given():
    x = on_gpu(4, 5)
    out = strata.zeros(8, device=DEVICE)[::2]
    assert SUM(x, axis=1, out=out) is out
    np.testing.assert_allclose(host(out), host(x).sum(1), rtol=1e-5, atol=1e-6)
    same = strata.zeros(4, 1, device=DEVICE)
    SUM(x, same, axis=1, keepdims=True)
    np.testing.assert_allclose(host(same)[:, 0], host(x).sum(1), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match=r"has shape \[5\], but the result has \[4\]"):
        SUM(x, axis=1, out=strata.zeros(5, device=DEVICE))
    with pytest.raises(TypeError, match="is float64, but the result is float32"):
        SUM(x, axis=1, out=strata.zeros(4, dtype=strata.float64, device=DEVICE))
    with pytest.raises(RuntimeError, match="overlaps"):
        SUM(x, axis=1, out=x[:, 0])


def test_shapes_on_meta():
    out = SUM(strata.zeros(3, 4, device="meta"), axis=0, keepdims=True)
    assert out.device.type == "meta" and tuple(out.shape) == (1, 4)


def test_gradients_are_refused():
    x = on_gpu(3).requires_grad_()
    y = SUM(x)
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="my_sum has no gradient"):
        y.backward()


def test_wrong_arguments():
    x = on_gpu(3, 4)
    with pytest.raises(IndexError, match="axis 2 is out of range for 2 dimensions"):
        SUM(x, axis=2)
    with pytest.raises(ValueError, match="axis -1 is given twice"):
        SUM(x, axis=(1, -1))
    with pytest.raises(TypeError):
        SUM(x, axis="0")
    with pytest.raises(TypeError, match="takes 1 inputs"):
        SUM(x, x, x)
    with pytest.raises(TypeError, match="takes 1 inputs"):
        SUM()
    with pytest.raises(RuntimeError, match="on cpu"):
        SUM(x.cpu())
    with pytest.raises(cuda.CompileError, match="zork"):
        cuda.reduction("T x", "T y", "zork", "a + b", "y = a", "0", "bad")(x)
    with pytest.raises(cuda.CompileError, match=r"reduce_expr.*zork"):
        cuda.reduction("T x", "T y", "x", "a + zork", "y = a", "0", "bad")(x)
    for arguments, text in [
        (("T a", "T y", "a", "a + b", "y = a", "0"), "declared twice"),
        (("T x", "U y", "x", "a + b", "y = a", "0"), "type 'U'"),
        (("T x", "T y", "", "a + b", "y = a", "0"), "map_expr is empty"),
        (("T x", "T y", "x", " ", "y = a", "0"), "reduce_expr is empty"),
        (("T x", "T y", "x", "a + b", ";", "0"), "post_map_expr is empty"),
        (("T x", "T y", "x", "a + b", "y = a", "0", "1bad"), "not a name"),
        (("T x", "T y", "x", "a + b", "y = a", "0", "f", "V"), "type 'V'"),
        (("raw T x", "T y", "x", "a + b", "y = a", "0"), "raw parameters"),
        (("", "T y", "x", "a + b", "y = a", "0"), "at least one input"),
    ]:
        with pytest.raises((ValueError, NotImplementedError), match=text):
            cuda.reduction(*arguments)
    with pytest.raises(TypeError, match="must be a str"):
        cuda.reduction("T x", "T y", 1, "a + b", "y = a", "0")


@pytest.mark.parametrize(
    "identity, expected",
    [(float("-inf"), -np.inf), (float("inf"), np.inf), (float("nan"), np.nan), (True, 1.0), (2, 2.0)],
)
def test_identities_that_are_python_numbers(identity, expected):
    kernel = strata.cuda.reduction("T x", "T y", "x", "max(a, b)", "y = a  // the largest", identity)
    got = kernel(strata.zeros(0, device=DEVICE)).item()
    assert np.array_equal(got, expected, equal_nan=True)
