"""Kernels that share one result among threads: the same bits for any number of threads, and the values of a reference."""

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def with_threads(f):
    """f() with 1, 2, 3 and 5 threads, which must give the same bits."""
    before, results = strata.get_num_threads(), []
    try:
        for n in (1, 2, 3, 5):
            strata.set_num_threads(n)
            results.append([np.ascontiguousarray(r.to(strata.float64).numpy()) for r in f()])
    finally:
        strata.set_num_threads(before)
    for other in results[1:]:
        assert [r.tobytes() for r in results[0]] == [r.tobytes() for r in other]
    return results[0]


@pytest.mark.parametrize("k", [65535, 65536, 65537, 100_003, 1_000_000])
@pytest.mark.parametrize(
    "dtype, error", [("float32", 2e-6), ("float64", 1e-14), ("bfloat16", 4e-3), ("float16", 1e-3), ("int64", 0)]
)
def test_long_dot_products(k, dtype, error):
    a, b = (np.round(numbers(k, seed=s) * 8) / 8 for s in (1, 2))
    if dtype == "int64":
        a, b = a * 8, b * 8
    x, y = (strata.tensor(v).to(getattr(strata, dtype)) for v in (a, b))
    (got,) = with_threads(lambda: [strata.dot(x, y)])
    assert abs(got - np.dot(a.astype(np.float64), b.astype(np.float64))) <= error * np.linalg.norm(a) * np.linalg.norm(
        b
    )


@pytest.mark.parametrize("rows", [1, 3, 63, 64])
@pytest.mark.parametrize("dtype, error", [("float32", 2e-6), ("bfloat16", 4e-3)])
def test_few_long_rows_times_a_vector(rows, dtype, error):
    a, b, c = numbers(rows, 70_000), numbers(70_000, seed=1), numbers(rows, seed=2)
    x, y, z = (strata.tensor(v).to(getattr(strata, dtype)) for v in (a, b, c))
    wide = [t.to(strata.float64).numpy() for t in (x, y, z)]
    scale = np.linalg.norm(wide[0], axis=1) * np.linalg.norm(wide[1]) + 1
    product, sum_, left = with_threads(lambda: [x @ y, strata.addmv(z, x, y, beta=0.5, alpha=-2.0), y @ x.t()])
    want = wide[0] @ wide[1]
    assert (abs(product - want) <= error * scale).all() and (abs(left - want) <= error * scale).all()
    assert (abs(sum_ - (0.5 * wide[2] - 2 * want)) <= 3 * error * scale).all()


@pytest.mark.parametrize(
    "m, k, n", [(775, 4, 1291), (1000, 1, 40), (97, 2, 161), (700, 7, 33), (5, 3, 5000), (211, 16, 95), (211, 17, 95)]
)
def test_products_with_short_sums(m, k, n):
    a, b, c = numbers(m, k), numbers(k, n, seed=1), numbers(m, n, seed=2)
    x, y, z = (strata.tensor(v) for v in (a, b, c))

    def own():
        results = []
        _C._prefer_kernel("simd_tiles")  # where oneDNN would be taken
        try:
            strata.explain(lambda: results.append(strata.mm(x, y)))
        finally:
            _C._prefer_kernel(None)
        return [*results, strata.addmm(z, x, y)]

    product, sum_ = with_threads(own)
    want = a.astype(np.float64) @ b
    assert np.allclose(product, want, rtol=0, atol=1e-5) and np.allclose(sum_, want + c, rtol=0, atol=1e-5)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_batches_of_products_with_short_sums(k):
    a, b, c = numbers(24, 97, k), numbers(24, k, 161, seed=1), numbers(24, 97, 161, seed=2)
    x, y, z = (strata.tensor(v) for v in (a, b, c))
    got, turned = with_threads(
        lambda: [
            strata.baddbmm(z, x, y, beta=0.5, alpha=-2.0),
            x @ y.transpose(1, 2).contiguous().transpose(1, 2),
        ]
    )
    product = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(got, 0.5 * c - 2 * product, atol=2e-5)
    np.testing.assert_allclose(turned, product, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("n", [0, 1, 255, 4097, 100_003])
@pytest.mark.parametrize("value", [0, 1])
def test_constants(dtype, n, value):
    rows = strata.full((3, n), 1 - value, dtype=getattr(strata, dtype))
    rows[1].fill_(value)
    strided = strata.full((n, 3), 1 - value, dtype=getattr(strata, dtype))
    strided[:, 1].fill_(value)
    want = np.full((3, n), 1 - value)
    want[1] = value
    assert (rows.to(strata.complex128).numpy() == want).all()
    assert (strided.to(strata.complex128).numpy() == want.T).all()


@pytest.mark.parametrize("bins", [1, 4, 100, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_histograms(bins, dtype):
    x = strata.tensor(numbers(200_003)).to(getattr(strata, dtype))
    (got,) = with_threads(lambda: [strata.histc(x.to(strata.float64), bins, -1, 2)])
    (own,) = with_threads(lambda: [strata.histc(x, bins, -1, 2)])
    values = x.to(strata.float64).numpy()
    place = ((values - -1.0) / 3.0 * bins).astype(np.int64).clip(0, bins - 1)
    want = np.bincount(place[(values >= -1) & (values <= 2)], minlength=bins)
    assert (got == want).all()
    assert (own == strata.tensor(want).to(getattr(strata, dtype)).to(strata.float64).numpy()).all()


@pytest.mark.parametrize(
    "shape, classes", [((20_000,), 5), ((3, 61, 70), 7), ((1, 4096), 3), ((2, 4097), 3), ((0,), 4)]
)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_many_targets(shape, classes, reduction, weighted):
    rng = np.random.default_rng(5)
    logp = rng.standard_normal((shape[0], classes, *shape[1:])).astype(np.float32)
    target, weight = rng.integers(0, classes, shape), rng.random(classes).astype(np.float32)
    x, t, w = strata.tensor(logp, requires_grad=True), strata.tensor(target), strata.tensor(weight)

    def run():
        loss = F.nll_loss(x, t, w if weighted else None, ignore_index=1, reduction=reduction)
        return [loss.detach(), strata.autograd.grad(loss.sum(), x)[0]]

    loss, gradient = with_threads(run)
    scale = (weight if weighted else np.ones(classes, np.float32)).astype(np.float64) * (np.arange(classes) != 1)
    chosen = np.take_along_axis(logp, target[:, None], 1)[:, 0]
    each, total = -chosen * scale[target], scale[target].sum()
    with np.errstate(invalid="ignore"):
        want = {"none": each, "sum": each.sum(), "mean": each.sum() / total}[reduction]
    assert np.allclose(loss, want, rtol=1e-6, equal_nan=True)
    ones = np.zeros(logp.shape)
    np.put_along_axis(ones, target[:, None], -scale[target][:, None], 1)
    assert np.allclose(gradient, ones / total if reduction == "mean" and total else ones, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("n", [1, 1023, 1025, 50_000])
def test_binary_cross_entropy(n):
    rng = np.random.default_rng(6)
    p, t = rng.random(n).astype(np.float32), rng.random(n).astype(np.float32)
    p[0] = 0
    x, y = strata.tensor(p, requires_grad=True), strata.tensor(t)

    def run():
        loss = F.binary_cross_entropy(x, y, reduction="none")
        return [loss.detach(), strata.autograd.grad(loss.sum(), x)[0]]

    loss, gradient = with_threads(run)
    wide = p.astype(np.float64)
    with np.errstate(divide="ignore"):
        want = -(t * np.maximum(np.log(wide), -100) + (1.0 - t) * np.maximum(np.log1p(-wide), -100))
    assert np.allclose(loss, want, rtol=2e-6, atol=2e-7)
    assert np.allclose(gradient, (wide - t) / np.maximum(wide * (1 - wide), 1e-12), rtol=1e-4)
    bad = p.copy()
    bad[-1] = 1.5
    with pytest.raises(RuntimeError, match="between 0 and 1, found 1.5"):
        F.binary_cross_entropy(strata.tensor(bad), y)


@pytest.mark.parametrize("shape", [(16, 24, 56, 48), (1, 1, 9, 9), (40, 12, 11)])
def test_windows_at_random_places(shape):
    x = strata.tensor(numbers(*shape))
    samples = strata.tensor(np.random.default_rng(3).random((shape[0] if len(shape) == 4 else 1, shape[-3], 2)))
    values, index = with_threads(lambda: F.fractional_max_pool2d_with_indices(x, 2, [3, 4], _random_samples=samples))
    flat = x.numpy().reshape(*shape[:-2], -1)
    assert np.array_equal(
        values.reshape(*shape[:-2], -1), np.take_along_axis(flat, index.astype(int).reshape(*shape[:-2], -1), -1)
    )
    assert (values.max((-1, -2)) <= flat.max(-1)).all()
