"""cross_entropy of rows with class indices, one fused op, beside its definition in NumPy."""

import os

import numpy as np
import pytest
import strata

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
SHAPES = ((1, 1), (3, 7), (5, 50), (2, 257), (4, 1000), (2, 5003), (7, 16), (3, 33001))
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "float16": 4e-3, "bfloat16": 2e-2}


def definition(x, target, weight, reduction, ignore=-100):
    """The loss, and the gradient of half of its sum."""
    most = x.max(1, keepdims=True)
    logp = x - most - np.log(np.exp(x - most).sum(1, keepdims=True))
    counts = target != ignore
    place = (np.arange(len(x)), np.where(counts, target, 0))
    scale = np.where(counts, weight[place[1]], 0.0)
    each = -logp[place] * scale
    one_hot = np.zeros_like(x)
    one_hot[place] = 1
    total = scale.sum() if reduction == "mean" else 1.0
    gradient = 0.5 * (np.exp(logp) - one_hot) * scale[:, None] / total
    return (each if reduction == "none" else each.sum() / total), gradient


def numbers(t):
    return np.array(t.detach().cpu().double().tolist()).reshape(t.shape)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows(shape, dtype, device):
    rng = np.random.default_rng(7)
    for reduction in ("mean", "sum", "none"):
        for weighted in (False, True):
            x = strata.tensor(rng.standard_normal(shape) * 3).to(device, getattr(strata, dtype)).requires_grad_()
            target = rng.integers(0, shape[1], shape[0])
            if shape[0] > 2:
                target[1] = -100
            weight = strata.tensor(rng.random(shape[1]) + 0.5).to(device, getattr(strata, dtype))
            loss = F.cross_entropy(
                x, strata.tensor(target).to(device), weight if weighted else None, reduction=reduction
            )
            (gradient,) = strata.autograd.grad(loss, [x], strata.ones_like(loss) * 0.5)
            w = numbers(weight) if weighted else np.ones(shape[1])
            expected = definition(numbers(x), target, w, reduction)
            assert loss.dtype == x.dtype and gradient.dtype == x.dtype
            for got, wanted in zip((loss, gradient), expected, strict=True):
                error = np.abs(numbers(got) - wanted) / (1 + np.abs(wanted))
                assert error.max() < TOLERANCE[dtype], (reduction, weighted)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_rows_of_a_view_and_of_bytes(device):
    whole = strata.randn(6, 40, dtype=strata.float64).to(device)
    x, target = whole[::2, 3:36].requires_grad_(), strata.tensor([0, 32, 5], dtype=strata.uint8).to(device)
    loss = F.cross_entropy(x, target)
    expected = definition(numbers(x), np.array([0, 32, 5]), np.ones(33), "mean")
    loss.backward(strata.tensor(0.5, dtype=strata.float64, device=device))
    assert abs(loss.item() - expected[0]) < 1e-12
    assert np.abs(numbers(x.grad) - expected[1]).max() < 1e-12


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_that_begin_between_two_vectors(dtype):
    rng = np.random.default_rng(8)
    for classes in (9, 250, 2051):
        whole = strata.tensor(rng.standard_normal((4, classes))).to(DEVICE, getattr(strata, dtype))
        for rows in (whole[1:], whole[2:]):  # contiguous, aligned unlike the gradient
            x, target = rows.detach().requires_grad_(), strata.tensor([classes - 1] + [0] * (len(rows) - 1)).to(DEVICE)
            (gradient,) = strata.autograd.grad(F.cross_entropy(x, target, reduction="sum"), [x])
            want = definition(numbers(x), numbers(target).astype(int), np.ones(classes), "sum")[1] * 2
            assert np.abs(numbers(gradient) - want).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_second_derivative(device):
    x = strata.randn(3, 4, dtype=strata.float64).to(device).requires_grad_()
    target, weight = strata.tensor([1, -100, 3]).to(device), strata.tensor([1.0, 2.0, 0.5, 3.0]).double().to(device)
    for reduction in ("mean", "sum", "none"):
        f = lambda x, r=reduction: F.cross_entropy(x, target, weight, reduction=r)  # noqa: E731
        assert strata.autograd.gradcheck(f, [x])
        assert strata.autograd.gradgradcheck(f, [x])


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_special_values(device, dtype):
    inf, nan = np.inf, np.nan
    rows = [[1, nan, 2], [1, inf, 2], [-inf, 1, 2], [-inf, -inf, -inf], [inf, inf, 0], [1e30, -1e30, 0]]
    x = strata.tensor(rows).to(device, getattr(strata, dtype))
    for target in range(3):
        classes = strata.full((6,), target, dtype=strata.int64).to(device)
        got = numbers(F.cross_entropy(x, classes, reduction="none"))
        logp = numbers(strata.log_softmax(x.cpu().double(), 1))[:, target]
        assert np.allclose(got, -logp, rtol=1e-2, equal_nan=True), target
    long = strata.full((2, 5000), -inf)
    long[0, 4999] = 3.0
    got = numbers(F.cross_entropy(long.to(device, x.dtype), strata.tensor([4999, 0]).to(device), reduction="none"))
    assert got[0] == 0 and np.isnan(got[1])


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_an_ignored_row_has_no_gradient(device):
    x = strata.tensor([[1.0, np.nan], [0.0, 0.0]]).to(device).requires_grad_()
    F.cross_entropy(x, strata.tensor([-100, 0]).to(device)).backward()
    assert x.grad.tolist() == [[0, 0], [-0.5, 0.5]]
    nothing = F.cross_entropy(x, strata.tensor([-100, -100]).to(device))
    assert np.isnan(nothing.item())
    empty = strata.zeros(0, 5).to(device).requires_grad_()
    loss = F.cross_entropy(empty, strata.zeros(0, dtype=strata.int64).to(device), reduction="sum")
    loss.backward()
    assert loss.item() == 0 and empty.grad.shape == (0, 5)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_a_class_out_of_range(device):
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        F.cross_entropy(strata.randn(2, 4).to(device), strata.tensor([0, 4]).to(device)).item()


def test_any_number_of_threads_gives_the_same_bits():
    x, target = strata.randn(300, 1001).requires_grad_(), strata.randint(0, 1001, (300,))
    found, before = [], strata.get_num_threads()
    try:
        for threads in (1, 2, 3):
            strata.set_num_threads(threads)
            loss = F.cross_entropy(x, target)
            found.append((loss.item(), strata.autograd.grad(loss, [x])[0].tolist()))
    finally:
        strata.set_num_threads(before)
    assert found[0] == found[1] == found[2]
