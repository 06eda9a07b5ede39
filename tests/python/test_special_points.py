"""Gradients at kinks, ties, zero and NaN: the same as PyTorch's."""

import math

import numpy as np
import pytest
import strata
from strata.nn import functional as F

NAN, INF = math.nan, math.inf


def gradient(f, *points):
    inputs = [strata.tensor(p, dtype=strata.float64, requires_grad=True) for p in points]
    f(*inputs).sum().backward()
    return [t.grad.tolist() for t in inputs]


# Points and the slope at each.
SLOPES = {
    "clamp": (lambda x: strata.clamp(x, -0.5, 0.5), [-1, -0.5, 0, 0.5, 1, NAN], [0, 0, 1, 0, 0, 0]),
    "clamp(min)": (lambda x: strata.clamp(x, min=0.5), [0, 0.5, 1, INF, NAN], [0, 0, 1, 1, 0]),
    "clamp(max)": (lambda x: strata.clamp(x, max=0.5), [0, 0.5, 1, -INF, NAN], [1, 0, 0, 1, 0]),
    "clamp_min": (lambda x: strata.clamp_min(x, 0.5), [0, 0.5, 1, INF, NAN], [0, 0, 1, 1, 0]),
    "clamp_max": (lambda x: strata.clamp_max(x, 0.5), [0, 0.5, 1, -INF, NAN], [1, 0, 0, 1, 0]),
    "hardtanh": (F.hardtanh, [-1, 0, 1, NAN], [0, 1, 0, 1]),
    "relu6": (F.relu6, [0, 3, 6, NAN], [0, 1, 0, 1]),
    "hardswish": (F.hardswish, [-4, -3, 0, 3, 4], [0, 0, 0.5, 1, 1]),
    "hardsigmoid": (F.hardsigmoid, [-3, 0, 3], [0, 1 / 6, 0]),
    "relu": (F.relu, [-1, 0, 1], [0, 0, 1]),
    "elu": (F.elu, [0, 1, NAN], [1, 1, 1]),
    "celu": (F.celu, [0, 1, NAN], [1, 1, 1]),
    "abs": (strata.abs, [-1, 0, 1], [-1, 0, 1]),
    "sqrt": (strata.sqrt, [0, 4], [INF, 0.25]),
    "logit": (strata.logit, [-1, 0, 0.5, 1, 2], [NAN, INF, 4, INF, NAN]),
    "atan2(x, x)": (lambda x: strata.atan2(x, x), [0, 1e-200, 2], [0, 0, 0]),
    "pow(x, 0)": (lambda x: x**0, [0, 1], [0, 0]),
    "norm": (lambda x: strata.linalg.vector_norm(x.reshape(-1, 1), dim=1), [0, 2, -2], [0, 1, -1]),
    "huber_loss": (lambda x: F.huber_loss(x, strata.zeros_like(x), "sum"), [-INF, -1, 0, 1, INF], [-1, -1, 0, 1, 1]),
    "smooth_l1_loss": (
        lambda x: F.smooth_l1_loss(x, strata.zeros_like(x), reduction="sum"),
        [-INF, -1, 0, 0.5, 1, INF],
        [-1, -1, 0, 0.5, 1, 1],
    ),
    "hinge_embedding_loss": (
        lambda x: F.hinge_embedding_loss(x, -strata.ones_like(x), reduction="sum"),
        [0, 1, 2],
        [-1, 0, 0],
    ),
    "margin_ranking_loss": (
        lambda x: F.margin_ranking_loss(x, x.detach() * 0, strata.ones_like(x), 0.5, reduction="sum"),
        [0, 0.5, 1],
        [-1, 0, 0],
    ),
    "mean of std_mean": (lambda x: strata.std_mean(x.reshape(-1, 1), 1)[1], [0, 2, NAN], [1, 1, 1]),
    "mean of var_mean": (lambda x: strata.var_mean(x.reshape(-1, 1), 1)[1], [0, 2, NAN], [1, 1, 1]),
    "median": (strata.median, [1, 2, 2, 3, 2], [0, 1 / 3, 1 / 3, 0, 1 / 3]),
    "median with NaN": (strata.median, [1, NAN, 2, 3, 2], [0, 1, 0, 0, 0]),
    "nanmedian": (strata.nanmedian, [1, NAN, 2, 3, 2], [0, 0, 0.5, 0, 0.5]),
    "amax": (strata.amax, [1, 3, 3], [0, 0.5, 0.5]),
    "max": (strata.max, [1, 3, 3], [0, 0.5, 0.5]),
    "prod": (strata.prod, [0, 2, 3], [6, 0, 0]),
    "prod of two zeros": (strata.prod, [0, 0, 3], [0, 0, 0]),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name):
    f, points, slopes = SLOPES[name]
    np.testing.assert_allclose(gradient(f, points)[0], slopes, rtol=1e-12)


# Operands and the share each has of a gradient of 1.
PAIRS = [(1, 1), (2, 1), (1, 2), (NAN, 1), (1, NAN), (NAN, NAN)]
SHARES = {
    "maximum": [(0.5, 0.5), (1, 0), (0, 1), (1, 1), (1, 1), (1, 1)],
    "minimum": [(0.5, 0.5), (0, 1), (1, 0), (1, 1), (1, 1), (1, 1)],
    "clamp_min": [(0.5, 0.5), (1, 0), (0, 1), (1, 1), (1, 1), (1, 1)],
    "clamp_max": [(0.5, 0.5), (0, 1), (1, 0), (1, 1), (1, 1), (1, 1)],
    "fmax": [(0.5, 0.5), (1, 0), (0, 1), (0, 1), (1, 0), (1, 0)],
    "fmin": [(0.5, 0.5), (0, 1), (1, 0), (0, 1), (1, 0), (1, 0)],
}


@pytest.mark.parametrize("name", SHARES)
def test_shares_of_two(name):
    a, b = zip(*PAIRS, strict=True)
    assert list(zip(*gradient(getattr(strata, name), a, b), strict=True)) == SHARES[name]


def test_clamp_between_tensors_shares_with_its_bounds():
    #          x, min, max -> shares of x, min, max
    rows = [
        (0, -1, 1, 1, 0, 0),
        (-1, -1, 1, 0.5, 0.5, 0),
        (1, -1, 1, 0.5, 0, 0.5),
        (-2, -1, 1, 0, 1, 0),
        (2, -1, 1, 0, 0, 1),
        (NAN, -1, 1, 1, 0, 0),
        (0, NAN, 1, 1, 0, 0),
        (0, 1, 1, 0, 1, 0),
        (1, 1, 1, 1, 0, 0),
        (2, 1, 1, 0, 0, 1),
        (0, 1, -1, 0, 0, 1),
        (-2, 1, -1, 0, 0, 1),
    ]
    x, low, high, *shares = zip(*rows, strict=True)
    assert gradient(strata.clamp, x, low, high) == [list(map(float, s)) for s in shares]


@pytest.mark.parametrize("bound", ["min", "max"])
def test_clamp_at_one_tensor(bound):
    x, at = [0, 1, 2, NAN], [1, 1, 1, 1]
    got = gradient(lambda x, at: strata.clamp(x, **{bound: at}), x, at)
    first = [0, 0.5, 1, 1] if bound == "min" else [1, 0.5, 0, 1]
    second = [1, 0.5, 0, 1] if bound == "min" else [0, 0.5, 1, 1]
    assert got == [first, second]


def test_the_gradient_of_a_scatter_by_strides_reads_only_its_own_elements():
    # What the strides reach between the rows of input is in no result: nothing comes back from it.
    x = strata.arange(12.0).reshape(3, 4)[:, :2].detach().requires_grad_()
    src = strata.full((2, 2), 5.0, requires_grad=True)
    y = strata.as_strided_scatter(x, src, [2, 2], [4, 1], 1)
    y.backward(strata.arange(1.0, 7).reshape(3, 2))
    assert y.tolist() == [[0, 5], [4, 5], [8, 9]]
    assert src.grad.tolist() == [[2, 0], [4, 0]]
    assert x.grad.tolist() == [[1, 0], [3, 0], [5, 6]]


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_the_second_derivative_of_a_loss_at_equal_values(loss):
    x = strata.tensor([1.0, 1.25, 3.0], requires_grad=True)
    (g,) = strata.autograd.grad(loss(x, strata.ones(3), reduction="sum"), x, create_graph=True)
    (second,) = strata.autograd.grad(g.sum(), x)
    assert g.tolist() == [0, 0.25, 1] and second.tolist() == [1, 1, 0]


def test_the_second_derivative_of_hardswish_where_its_slope_is_constant():
    x = strata.tensor([-INF, -3, 0, 3, INF, NAN], requires_grad=True)
    (g,) = strata.autograd.grad(F.hardswish(x).sum(), x, create_graph=True)
    (second,) = strata.autograd.grad(g.sum(), x)
    assert g.tolist() == [0, 0, 0.5, 1, 1, 1] and second.tolist() == [0, 0, pytest.approx(1 / 3), 0, 0, 0]


def test_renorm_of_a_slice_that_stays():
    assert gradient(lambda x: strata.renorm(x, 2, 0, 1.0), [[NAN, 1], [0.25, 0.5]]) == [[[1, 1], [1, 1]]]


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16])
def test_norms_of_rows_with_nan(dtype):
    x = strata.tensor([[0, 1, NAN, 2], [1, 1, 1, 1]], dtype=dtype)
    for y in (F.rms_norm(x, (4,)), F.layer_norm(x, (4,))):
        assert y[0].isnan().all() and y[1].isfinite().all()


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_softshrink_keeps_the_sign_of_zero(device):
    x = strata.tensor([-0.1, 0.1, -0.0, float("nan")], device=device)
    y = 1 / strata.nn.functional.softshrink(x, 0.3)
    assert y[:3].tolist() == [-float("inf"), float("inf"), -float("inf")] and y[3].isnan().item()


@pytest.mark.parametrize("op, expected", [("max", [0, 1, 1]), ("min", [1, 0, 0]), ("median", [0, 1, 1])])
def test_an_extreme_of_all_passes_nan_to_itself_alone(op, expected):
    x = strata.tensor([1.0, 2.0, 2.0], requires_grad=True)
    getattr(x, op)().backward(strata.tensor(float("nan")))
    assert x.grad.isnan().tolist() == [bool(e) for e in expected] and x.grad[~x.grad.isnan()].sum().item() == 0


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16, strata.bfloat16])
def test_sigmoid_falls_to_zero_without_a_gap(dtype):
    x = strata.linspace(-110, -70, 40_001, dtype=strata.float64).to(dtype)
    expected = 1 / (1 + np.exp(-x.double().numpy()))
    least = 1e-7 if dtype == strata.float16 else 1e-37  # numbers below underflow
    np.testing.assert_allclose(x.sigmoid().double().numpy(), expected, rtol=2e-2, atol=least)
    np.testing.assert_allclose(F.silu(x).double().numpy(), x.double().numpy() * expected, rtol=2e-2, atol=100 * least)


@pytest.mark.parametrize("order", [1, 2, 3, 0.5, -1, float("inf"), float("-inf"), 0])
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_the_norm_of_one_number_is_its_magnitude(order, device):
    values = np.array([[-3e38], [1e-40], [0.0], [2.5], [np.inf], [np.nan]], np.float32)
    x = strata.tensor(values, device=device)
    want = np.abs(values) if order else (values != 0).astype(np.float32)
    assert np.array_equal(strata.linalg.vector_norm(x, order, dim=1, keepdim=True).cpu().numpy(), want, equal_nan=True)
    assert strata.linalg.vector_norm(x[0], order).item() == want[0, 0]


def test_copysign_needs_only_its_input_and_result():
    x = strata.tensor([1.0, -2.0, 0.0], dtype=strata.float64, requires_grad=True)
    sign = strata.tensor([-1.0, -1.0, 1.0], dtype=strata.float64)
    y = strata.copysign(x, sign)
    sign.fill_(5)  # the sign that was used is in the result
    y.sum().backward()
    assert x.grad.tolist() == [-1.0, 1.0, 0.0]
