"""Products with two to twelve columns or rows, in every layout, against float64."""

import numpy as np
import pytest
import strata

SHAPES = [
    (8, 64),
    (9, 65),
    (64, 8),
    (63, 63),
    (65, 9),
    (130, 200),
    (257, 127),
    (12, 5000),
    (5000, 12),
    (70, 9000),
    (20, 300),
    (300, 9),
]
SIDES = ["rows", "columns", "slice"]


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def laid_out(array, side):
    """The same matrix with contiguous rows, with contiguous columns, or with neither."""
    if side == "rows":
        return strata.tensor(array)
    if side == "columns":
        return strata.tensor(np.ascontiguousarray(array.swapaxes(-1, -2))).transpose(-1, -2)
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), dtype=array.dtype)
    wide[..., 1::2] = array
    return strata.tensor(wide)[..., 1::2]


def same_for_any_thread_count(f):
    before, bits = strata.get_num_threads(), set()
    try:
        for count in (1, 2, 3, 16):
            strata.set_num_threads(count)
            result = f().contiguous().numpy()
            bits.add(result.tobytes())
    finally:
        strata.set_num_threads(before)
    assert len(bits) == 1
    return result


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    m, k = shape
    for n in range(1, 14):
        a, b = numbers(rng, m, k), numbers(rng, k, n)
        want, size = a.astype(np.float64) @ b, np.abs(a) @ np.abs(b)
        limit = (1e-6 if dtype is strata.float32 else 1e-14) * size
        for side in SIDES:
            x, y = laid_out(a, side).to(dtype), laid_out(b, SIDES[n % 3]).to(dtype)
            got = same_for_any_thread_count(lambda x=x, y=y: x @ y)
            assert (np.abs(got - want) <= limit).all(), (shape, n, side)
            turned = same_for_any_thread_count(lambda x=x, y=y: y.t() @ x.t())
            assert (np.abs(turned - want.T) <= limit.T).all(), (shape, n, side)


@pytest.mark.parametrize("n", [2, 4, 5, 8, 12])
def test_batches_and_what_is_added(n):
    rng = np.random.default_rng(n)
    for batch, m, k in [(1, 64, 64), (3, 20, 90), (17, 97, 161), (0, 64, 64)]:
        a, b, c = numbers(rng, batch, m, k), numbers(rng, batch, k, n), numbers(rng, batch, m, n)
        want = a.astype(np.float64) @ b
        for side in SIDES:
            x, y, z = laid_out(a, side), laid_out(b, "columns"), strata.tensor(c)
            got = same_for_any_thread_count(lambda x=x, y=y: strata.bmm(x, y))
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-4)
            got = same_for_any_thread_count(lambda x=x, y=y, z=z: strata.baddbmm(z, x, y, beta=0.5, alpha=-2))
            np.testing.assert_allclose(got, 0.5 * c - 2 * want, rtol=0, atol=4e-4)
            shared = same_for_any_thread_count(lambda x=x, y=y: strata.matmul(x, y[:1].squeeze(0)) if len(y) else x)
            if batch:
                np.testing.assert_allclose(shared, a.astype(np.float64) @ b[0], rtol=0, atol=2e-4)


@pytest.mark.parametrize("n", [2, 3, 5, 7, 8])
def test_layers_and_gradients(n):
    rng = np.random.default_rng(n)
    x, w, bias = numbers(rng, 4, 60, 150), numbers(rng, n, 150), numbers(rng, n)
    inputs = [strata.tensor(v, requires_grad=True) for v in (x, w, bias)]
    out = strata.nn.functional.linear(*inputs)
    g = numbers(rng, 4, 60, n)
    np.testing.assert_allclose(out.detach().numpy(), x @ w.T.astype(np.float64) + bias, rtol=0, atol=1e-4)
    out.backward(strata.tensor(g))
    flat, flat_g = x.reshape(-1, 150).astype(np.float64), g.reshape(-1, n)
    for value, want in zip(inputs, (g @ w.astype(np.float64), flat_g.T @ flat, flat_g.sum(0)), strict=True):
        np.testing.assert_allclose(value.grad.numpy(), want, rtol=0, atol=2e-4)


def test_special_values_stay_in_their_row_and_column():
    a, b = strata.ones(40, 100), strata.ones(100, 5)
    a[3, 7], b[50, 2] = float("nan"), float("inf")
    got = (a @ b).numpy()
    assert np.isnan(got[3]).all() and np.isinf(np.delete(got, 3, 0)[:, 2]).all()
    assert (np.delete(np.delete(got, 3, 0), 2, 1) == 100).all()
