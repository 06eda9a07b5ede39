"""Loops over whole rows: distances between all pairs of rows, and sums of bags of rows, beside NumPy."""

import numpy as np
import pytest
import strata

F = strata.nn.functional


def pair_distances(x):
    i, j = np.triu_indices(x.shape[0], 1)
    return np.sqrt(((x[i] - x[j]) ** 2).sum(-1))


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


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("dtype, error", [("float32", 1e-5), ("float64", 1e-12), ("bfloat16", 2e-2)])
def test_bags_of_rows(mode, padding, dtype, error):
    random = np.random.default_rng(7)
    weight = strata.tensor(random.standard_normal((11, 37))).to(getattr(strata, dtype))
    index = strata.tensor(random.integers(0, 11, 40))
    offsets = strata.tensor([0, 0, 5, 6, 25, 40])  # two bags are empty
    table, skip = weight.double().numpy(), None if padding is None else padding % 11

    def bag(rows):
        rows = [r for r in rows if r != skip]
        total = table[rows].sum(0)
        return total / max(len(rows), 1) if mode == "mean" else total

    ends = [*offsets.tolist()[1:], 40]
    want = np.stack([bag(index.tolist()[a:b]) for a, b in zip(offsets.tolist(), ends, strict=True)])
    for needed in (False, True):
        weight.requires_grad_(needed)
        got = F.embedding_bag(index, weight, offsets, mode=mode, padding_idx=padding)
        np.testing.assert_allclose(got.detach().double().numpy(), want, rtol=error, atol=error)
        got = F.embedding_bag(index.reshape(4, 10), weight, mode=mode, padding_idx=padding)
        rows = np.stack([bag(r) for r in index.reshape(4, 10).tolist()])
        np.testing.assert_allclose(got.detach().double().numpy(), rows, rtol=error, atol=error)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_gradient_of_bags_can_be_divided_by_the_number_of_uses(mode):
    weight = strata.randn(5, 3, dtype=strata.float64, requires_grad=True)
    index, seed = strata.tensor([[1, 4, 1], [1, 0, 4]]), strata.randn(2, 3, dtype=strata.float64)
    F.embedding_bag(index, weight, mode=mode, scale_grad_by_freq=True, padding_idx=0).backward(seed)
    want, uses = np.zeros((5, 3)), np.bincount(index.flatten().numpy(), minlength=5)
    for bag, rows in enumerate(index.tolist()):
        used = [r for r in rows if r != 0]
        for r in used:
            want[r] += seed[bag].numpy() / (len(used) if mode == "mean" else 1)
    np.testing.assert_allclose(weight.grad.numpy(), want / np.maximum(uses, 1)[:, None], rtol=1e-12)


def test_an_index_out_of_range_is_an_error():
    with pytest.raises(IndexError, match="out of range"):
        F.embedding_bag(strata.tensor([[0, 5]]), strata.ones(5, 2))
