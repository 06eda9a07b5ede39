"""Loops over whole rows: sums of bags of rows, beside NumPy."""

import numpy as np
import pytest
import strata

F = strata.nn.functional


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


@pytest.mark.parametrize("rows", [3, 7, 8, 9, 12, 31])
@pytest.mark.parametrize("width", [1, 127, 128, 129, 300])
def test_bags_of_wide_rows(rows, width):
    random = np.random.default_rng(rows * width)
    table, index = random.standard_normal((6, width)).astype(np.float32), random.integers(0, 6, (4, rows))
    for dtype, error in (("float32", 2e-6), ("float64", 1e-14)):
        x = strata.tensor(table).to(getattr(strata, dtype))
        got = F.embedding_bag(strata.tensor(index), x, mode="sum").double().numpy()
        np.testing.assert_allclose(got, table.astype(np.float64)[index].sum(1), rtol=error, atol=error * rows)


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
