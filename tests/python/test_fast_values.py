"""Losses, triangles, bounds and functions whose loops were written for speed, compared with NumPy."""

import math

import numpy as np
import pytest
import strata
from test_fast_paths import both_thread_counts, numbers

# --- negative log likelihood ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 3), (300, 7), (5, 3, 700), (2, 40, 33, 50), (1, 70, 9000), (4, 5, 0), (0, 5, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_likelihoods_of_classes(shape, dtype, reduction):
    random = np.random.default_rng(sum(shape))
    x = strata.tensor(random.standard_normal(shape)).to(getattr(strata, dtype))
    target = random.integers(0, shape[1], (shape[0], *shape[2:]))
    weight = strata.tensor(random.random(shape[1]) + 0.5).to(x.dtype)
    values, weights = x.double().numpy(), weight.double().numpy()
    picked = -np.take_along_axis(values, target[:, None], 1)[:, 0]
    for w in (None, weight):
        scale = np.where(target == 1, 0, 1 if w is None else weights[target])
        losses, slope = picked * scale, scale
        if reduction == "mean":
            with np.errstate(invalid="ignore"):
                losses, slope = losses.sum() / scale.sum(), scale / scale.sum()
        elif reduction == "sum":
            losses = losses.sum()
        want = np.zeros(shape)
        np.put_along_axis(want, target[:, None], -slope[:, None], 1)
        error = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2e-2, "float16": 4e-3}[dtype]
        for layout in (x, x.transpose(0, -1).contiguous().transpose(0, -1)):
            leaf = layout.detach().requires_grad_()
            loss = strata.nn.functional.nll_loss(leaf, strata.tensor(target), w, ignore_index=1, reduction=reduction)
            got = both_thread_counts(lambda loss=loss: loss.detach().double().numpy())
            np.testing.assert_allclose(got, losses, rtol=error, atol=error)
            loss.backward(strata.ones_like(loss))
            np.testing.assert_allclose(leaf.grad.double().numpy(), want, rtol=error, atol=error)


# --- triangles, bounds, the inverse hyperbolic tangent ------------------------------------------------------------------


@pytest.mark.parametrize("rows, columns", [(1, 1), (5, 9), (9, 5), (40, 33), (0, 3)])
@pytest.mark.parametrize("diagonal", [-50, -3, -1, 0, 1, 4, 50])
def test_triangles(rows, columns, diagonal):
    x = numbers(3, rows, columns)
    for t in (strata.tensor(x), strata.tensor(x.swapaxes(1, 2).copy()).mT, strata.tensor(np.repeat(x, 2, 2))[..., ::2]):
        for name, f in (("tril", np.tril), ("triu", np.triu)):
            assert np.array_equal(getattr(t, name)(diagonal).numpy(), f(x, diagonal))
            assert np.array_equal(getattr(t.clone(), name + "_")(diagonal).numpy(), f(x, diagonal))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 8, 16, 19, 64, 100])
def test_bounds_and_extremes_keep_not_a_number(dtype, n):
    random = np.random.default_rng(n)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5], dtype)
    x, low, high = (random.choice(special, n) for _ in range(3))
    a, b, c = map(strata.tensor, (x, low, high))
    for got, want in [
        (strata.maximum(a, b), np.maximum(x, low)),
        (strata.minimum(a, b), np.minimum(x, low)),
        (strata.clamp(a, b, c), np.minimum(np.maximum(x, low), high)),
        (strata.clamp(a, max=0.25), np.minimum(x, dtype(0.25))),
        (strata.clamp(a, -0.5, 0.25), np.minimum(np.maximum(x, dtype(-0.5)), dtype(0.25))),
        (strata.clamp(a, min=math.nan), np.full(n, np.nan)),
        (strata.clamp(a, max=math.nan), np.full(n, np.nan)),
        (strata.relu(a), np.maximum(x, dtype(0))),
    ]:
        np.testing.assert_array_equal(got.numpy(), want)


def test_atanh_is_within_two_units_in_the_last_place():
    near = np.nextafter(np.float32(1), np.float32(0))
    x = np.concatenate(
        [numbers(200000) * 0.3, 1 - np.abs(numbers(100000)) * 1e-4, numbers(50000) * 1e-6, numbers(5000) * 1e-38]
        + [np.array([0.0, -0.0, near, -near, 1e-45, 0.5, -0.25], np.float32)]
    ).astype(np.float32)
    x = x[np.abs(x) < 1]
    got, want = strata.atanh(strata.tensor(x)).numpy(), np.arctanh(x.astype(np.float64))
    units = np.abs(got - want) / np.spacing(np.maximum(np.abs(want.astype(np.float32)), np.finfo(np.float32).tiny))
    assert units.max() <= 2
    assert np.array_equal(np.signbit(got), np.signbit(x))
    edges = strata.atanh(strata.tensor([1.0, -1.0, 1.5, -math.inf, math.nan])).numpy()
    np.testing.assert_array_equal(edges, [np.inf, -np.inf, np.nan, np.nan, np.nan])


# --- the trapezoidal rule ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, error", [("float64", 1e-12), ("float32", 1e-4), ("int64", 0)])
def test_integrals_by_trapezoids(dtype, error):
    y, x = np.round(numbers(6, 33) * 8), np.round(numbers(33, seed=1) * 8)
    a, b = (strata.tensor(v).to(getattr(strata, dtype)) for v in (y, x))
    for got, want in [
        (strata.trapezoid(a, b), np.trapezoid(y, x) if hasattr(np, "trapezoid") else np.trapz(y, x)),
        (strata.trapezoid(a, dx=0.5), ((y[:, 1:] + y[:, :-1]) / 2).sum(-1) * 0.5),
        (strata.cumulative_trapezoid(a, b), np.cumsum((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x), -1)),
    ]:
        np.testing.assert_allclose(got.double().numpy(), want, rtol=error, atol=error * 100)


# --- the margin loss of several labels ----------------------------------------------------------------------------------


def margin_losses(x, labels):
    losses, slopes = np.zeros(len(x)), np.zeros_like(x)
    for i, (row, given) in enumerate(zip(x, labels, strict=True)):
        end = np.flatnonzero(given < 0)
        wanted = given[: end[0]] if end.size else given
        others = np.setdiff1d(np.arange(row.size), wanted)
        for label in wanted:
            z = 1 - row[label] + row[others]
            losses[i] += np.maximum(z, 0).sum() / row.size
            slopes[i, others[z > 0]] += 1 / row.size
            slopes[i, label] -= (z > 0).sum() / row.size
    return losses, slopes


@pytest.mark.parametrize("rows, classes", [(1, 1), (3, 4), (5, 17), (40, 33), (7, 200), (0, 5)])
@pytest.mark.parametrize("dtype, error", [("float32", 1e-5), ("float64", 1e-12), ("bfloat16", 2e-2), ("float16", 3e-3)])
def test_margins_of_several_labels(rows, classes, dtype, error):
    random = np.random.default_rng(rows + classes)
    labels = random.integers(0, classes, (rows, classes))
    labels[random.random((rows, classes)) < 2 / classes] = -1
    x = strata.tensor(random.standard_normal((rows, classes))).to(getattr(strata, dtype))
    losses, slopes = margin_losses(x.double().numpy(), labels)
    for reduction in ("none", "sum"):
        leaf = x.mT.contiguous().mT.requires_grad_()
        loss = strata.nn.functional.multilabel_margin_loss(leaf, strata.tensor(labels), reduction=reduction)
        got = both_thread_counts(lambda loss=loss: loss.detach().double().numpy())
        np.testing.assert_allclose(got, losses if reduction == "none" else losses.sum(), rtol=error, atol=error)
        loss.sum().backward()
        np.testing.assert_allclose(leaf.grad.double().numpy(), slopes, rtol=error, atol=error)


def test_gradients_of_margins_and_numbers_that_are_not_numbers():
    labels = strata.tensor([[1, 0, -1, 3, 2], [4, -1, -1, -1, -1]])
    x = strata.tensor(numbers(2, 5), dtype=strata.float64, requires_grad=True)

    def loss(x):
        return strata.nn.functional.multilabel_margin_loss(x, labels, reduction="none")

    assert strata.autograd.gradcheck(loss, (x,)) and strata.autograd.gradgradcheck(loss, (x,))
    bad = x.detach().clone()
    bad[1, 0] = math.nan
    np.testing.assert_array_equal(np.isnan(loss(bad).numpy()), [False, True])


def test_margins_need_no_memory_for_pairs_of_classes():
    x, labels = strata.zeros(40, 6000), strata.full((40, 6000), -1)
    labels[:, 0] = 5  # pairs would take 5.8 GB
    got = strata.nn.functional.multilabel_margin_loss(x, labels, reduction="none")
    assert strata.allclose(got, strata.full((40,), 5999 / 6000))
