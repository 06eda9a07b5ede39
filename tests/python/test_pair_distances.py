"""Distances between all pairs of rows, beside NumPy in float64, and their gradients."""

import numpy as np
import pytest
import strata

F = strata.nn.functional
ORDERS = [0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 7, np.inf]
WITHOUT_PRODUCTS = "donot_use_mm_for_euclid_dist"
ERRORS = {"float32": 2e-6, "float64": 1e-13, "bfloat16": 1e-2, "float16": 2e-3}


def norms(differences, p):
    size = np.abs(differences)
    if p == 0:
        return (size != 0).sum(-1).astype(np.float64)
    if np.isinf(p):
        return size.max(-1, initial=0)
    return (size**p).sum(-1) ** (1 / p)


def all_distances(x, y, p):
    return norms(x[..., :, None, :] - y[..., None, :, :], p)


def pair_distances(x, p=2):
    i, j = np.triu_indices(x.shape[0], 1)
    return norms(x[i] - x[j], p)


def given(shape, dtype, seed):
    x = np.random.default_rng(seed).standard_normal(shape) / (4 if dtype == "float16" else 1)
    return strata.tensor(x).to(getattr(strata, dtype))


def cdist(x, y, p):
    return strata.cdist(x, y, p, compute_mode=WITHOUT_PRODUCTS)


# Rows and columns around the number that vectors and panels hold, and lengths beyond which sums are taken in parts.
SHAPES = [((3, 4), (5, 4)), ((1, 5), (70, 5)), ((70, 300), (1, 300)), ((2, 33, 17), (65, 17)), ((2, 3, 5, 1), (130, 1)),
          ((2, 1, 4, 3), (3, 6, 3)), ((4, 0), (5, 0)), ((0, 2), (3, 2)), ((3, 2), (0, 2)), ((20, 513), (20, 513)),
          ((0, 4, 3), (5, 3)), ((16, 3), (17, 3)), ((63, 2), (64, 2))]  # fmt: skip


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", ERRORS)
def test_distances_from_each_row_to_each_row(p, dtype):
    for seed, (first, second) in enumerate(SHAPES):
        x, y = given(first, dtype, seed), given(second, dtype, seed + 100)
        got, want = cdist(x, y, p), all_distances(x.double().numpy(), y.double().numpy(), p)
        assert got.dtype == x.dtype
        if dtype == "float16":  # some are beyond its range
            want = np.where(want > 65519, np.inf, want)
        np.testing.assert_allclose(got.double().numpy(), want, rtol=ERRORS[dtype] * (4 if p == 0.5 else 1))
        np.testing.assert_array_equal(cdist(x.mT.contiguous().mT, y.mT.contiguous().mT, p).double(), got.double())


def test_operands_of_two_dtypes_are_promoted():
    x, y = given((4, 3), "float32", 0), given((5, 3), "float64", 1)
    got = cdist(x, y, 3.0)
    assert got.dtype == strata.float64
    np.testing.assert_allclose(got.numpy(), all_distances(x.double().numpy(), y.numpy(), 3), rtol=1e-13)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        strata.cdist(strata.ones(2, 3, 4), strata.ones(3, 3, 4), 1.0)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("n, d", [(0, 3), (1, 3), (2, 1), (5, 7), (63, 2), (65, 9), (130, 3)])
def test_distances_of_pairs_in_other_norms(p, dtype, n, d):
    x = given((n, d), dtype, n + d)
    got = F.pdist(x, p)
    assert got.dtype == x.dtype
    want = pair_distances(x.double().numpy(), p)
    np.testing.assert_allclose(got.double().numpy(), want, rtol=ERRORS[dtype] * (4 if p == 0.5 else 1))


@pytest.mark.parametrize("p", [1.5, 2, 3, 9])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e25])
def test_powers_of_distances_neither_overflow_nor_vanish(p, scale):
    x = (np.random.default_rng(0).standard_normal((6, 20)) * scale).astype(np.float32)
    want = all_distances(x.astype(np.float64) / scale, x.astype(np.float64) / scale, p) * scale
    np.testing.assert_allclose(cdist(strata.tensor(x), strata.tensor(x), p).numpy(), want, rtol=2e-6)


@pytest.mark.parametrize("p", ORDERS)
def test_gradients_of_all_norms(p):
    x, y = (given(s, "float64", k).requires_grad_() for k, s in enumerate([(2, 4, 3), (3, 3)]))
    assert strata.autograd.gradcheck(lambda x, y: cdist(x, y, p), (x, y))
    assert strata.autograd.gradgradcheck(lambda x, y: cdist(x, y, p), (x, y))
    z = given((5, 3), "float64", 2).requires_grad_()
    assert strata.autograd.gradcheck(lambda z: F.pdist(z, p), (z,))
    assert strata.autograd.gradgradcheck(lambda z: F.pdist(z, p), (z,))


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_with_and_without_a_graph_agree_where_rows_are_equal(p, dtype):
    random = np.random.default_rng(3)
    x, y = (strata.tensor(random.integers(0, 2, s), dtype=getattr(strata, dtype), requires_grad=True) for s in
            [(6, 3), (70, 3)])  # fmt: skip
    distances = cdist(x, y, p)
    g = strata.tensor(random.standard_normal((6, 70))).to(x.dtype)
    once = strata.autograd.grad(distances, (x, y), g, retain_graph=True)
    again = strata.autograd.grad(distances, (x, y), g, create_graph=True)
    for a, b in zip(once, again, strict=True):
        assert not a.isnan().any()
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("p", [1, 2.5, 3, np.inf])
def test_numbers_that_are_not_numbers_stay_in_their_pairs(p):
    x = strata.tensor([[1.0, 2.0], [np.nan, 0.0], [np.inf, 0.0], [1.0, 2.0]])
    got = cdist(x, strata.tensor([[0.0, 0.0], [1.0, 2.0]]), p).numpy()
    assert np.isnan(got[1]).all() and np.isinf(got[2]).all() and got[0, 1] == 0 == got[3, 1]


@pytest.mark.parametrize("p", [0, 1, 2, 2.5, 3, np.inf])
def test_any_number_of_threads_gives_the_same_bits(p):
    before, results = strata.get_num_threads(), []
    x, y, z = (given(s, "float32", k) for k, s in enumerate([(300, 40), (210, 40), (150, 9)]))
    try:
        for threads in (1, 2, 3, 7):
            strata.set_num_threads(threads)
            a, b, c = (t.clone().requires_grad_() for t in (x, y, z))
            first, second = cdist(a, b, p), F.pdist(c, p)
            (first.sum() + second.sum()).backward()
            results.append([t.detach().numpy().tobytes() for t in (first, second, a.grad, b.grad, c.grad)])
    finally:
        strata.set_num_threads(before)
    assert all(r == results[0] for r in results)


@pytest.mark.parametrize("n, d", [(0, 3), (1, 3), (2, 1), (5, 7), (9, 16), (23, 37), (6, 0)])
@pytest.mark.parametrize("dtype, error", [("float32", 1.3e-6), ("float64", 1e-13)])
def test_distances_of_all_pairs(n, d, dtype, error):
    x = np.random.default_rng(n * 100 + d).standard_normal((n, d)).astype(dtype)
    want = pair_distances(x.astype(np.float64))
    np.testing.assert_allclose(F.pdist(strata.tensor(x)).numpy(), want, rtol=error)
    turned = strata.tensor(np.ascontiguousarray(x.T)).mT
    np.testing.assert_allclose(F.pdist(turned).numpy(), want, rtol=error)


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_squares_of_distances_neither_overflow_nor_vanish(scale):
    x = (np.random.default_rng(0).standard_normal((6, 20)) * scale).astype(np.float32)
    np.testing.assert_allclose(F.pdist(strata.tensor(x)).numpy(), pair_distances(x.astype(np.float64)), rtol=1.3e-6)


def test_equal_rows_and_numbers_that_are_not_numbers():
    x = strata.tensor([[1.0, 2.0], [1.0, 2.0], [np.nan, 0.0], [np.inf, 0.0]], requires_grad=True)
    y = F.pdist(x)
    np.testing.assert_array_equal(np.isnan(y.detach().numpy()), [0, 1, 0, 1, 0, 1])
    assert y[0].item() == 0 and y[2].item() == np.inf
    same = strata.ones(3, 2, requires_grad=True)
    F.pdist(same).sum().backward()
    assert (same.grad == 0).all().item()


def test_gradients_of_distances():
    strata.manual_seed(0)
    x = (strata.randn(5, 3, dtype=strata.float64) + 100).requires_grad_()
    assert strata.autograd.gradcheck(F.pdist, (x,))
    assert strata.autograd.gradgradcheck(F.pdist, (x,))
