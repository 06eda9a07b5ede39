"""Kernels that treat long, wide or many rows differently, against NumPy in float64: sizes around their block lengths."""

import numpy as np
import pytest
import strata

F = strata.nn.functional
LENGTHS = [1, 7, 4095, 4096, 4097, 8191, 8192, 30011]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def same_for_any_thread_count(run):
    """The result of run(), which one and two threads must compute to the same bits."""
    before = strata.get_num_threads()
    results = []
    for threads in (1, 2, 5):
        strata.set_num_threads(threads)
        results.append(run())
    strata.set_num_threads(before)
    for r in results[1:]:
        assert np.array_equal(r.numpy(), results[0].numpy(), equal_nan=True)
    return results[0]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16"])
def test_cumulative_sums_of_long_rows(n, rows, dtype):
    x = numbers(rows, n) if dtype != "int64" else np.random.default_rng(1).integers(-9, 9, (rows, n))
    t = strata.from_numpy(x).to(getattr(strata, dtype))
    expected = t.double().numpy().cumsum(1)
    got = same_for_any_thread_count(lambda: t.cumsum(1).double())
    tolerance = {"float32": 1e-6, "float64": 1e-13, "int64": 0, "bfloat16": 8e-3}[dtype]
    np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance * 100)


def test_cumulative_sums_of_strided_and_reversed_rows():
    x = numbers(9001, 3)
    t = strata.from_numpy(x.astype(np.float32))
    got = same_for_any_thread_count(lambda: t.t().cumsum(1))
    np.testing.assert_allclose(got.numpy(), x.astype(np.float32).astype(float).T.cumsum(1), rtol=1e-5, atol=1e-4)
    v = strata.from_numpy(x[:, 0].copy()).requires_grad_()
    w = strata.from_numpy(x[:, 1].copy())
    (v.cumsum(0) * w).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), x[::-1, 1].cumsum()[::-1], rtol=1e-9, atol=1e-9)


def test_cumulative_sum_in_place():
    x = numbers(20011)
    t = strata.from_numpy(x.copy())
    t.cumsum_(0)
    np.testing.assert_allclose(t.numpy(), x.cumsum(), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("n", [3, 4097, 12000])
def test_cumulative_products_and_log_sums(n):
    x = numbers(n) * 0.01
    t = strata.from_numpy(x)
    np.testing.assert_allclose((1 + t).cumprod(0).numpy(), (1 + x).cumprod(), rtol=1e-10)
    expected = np.logaddexp.accumulate(x)
    np.testing.assert_allclose(strata.logcumsumexp(t, 0).numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("shape, dim", [((5, 130), 0), ((1, 7), 0), ((300, 1155), 0), ((2, 9, 65), 1), ((70, 3, 2), 1)])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_over_columns(shape, dim, log, dtype):
    x, g = numbers(*shape), numbers(*shape, seed=1)
    t = strata.from_numpy(x).to(getattr(strata, dtype)).requires_grad_()
    function = strata.log_softmax if log else strata.softmax
    y = same_for_any_thread_count(lambda: function(t, dim).detach())
    e = np.exp(x - x.max(dim, keepdims=True))
    p = e / e.sum(dim, keepdims=True)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(y.numpy(), np.log(p) if log else p, rtol=tolerance, atol=tolerance)
    function(t, dim).backward(strata.from_numpy(g).to(t.dtype))
    total = (g if log else g * p).sum(dim, keepdims=True)
    expected = g - p * total if log else (g - total) * p
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=tolerance * 10, atol=tolerance * 10)


@pytest.mark.parametrize("shape", [(3, 5), (40, 1001), (1, 40000), (200, 3)])
@pytest.mark.parametrize("dim", [0, 1])
def test_gather_and_scatter_add(shape, dim):
    random = np.random.default_rng(2)
    x, index = numbers(*shape), random.integers(0, shape[dim], shape)
    t, i = strata.from_numpy(x).requires_grad_(), strata.from_numpy(index)
    y = t.gather(dim, i)
    assert np.array_equal(y.detach().numpy(), np.take_along_axis(x, index, dim))
    y.backward(strata.ones(*shape, dtype=strata.float64))
    counts = np.zeros(shape)
    places = list(np.indices(shape))
    places[dim] = index
    np.add.at(counts, tuple(places), 1)
    assert np.array_equal(t.grad.numpy(), counts)
    strided = strata.from_numpy(np.repeat(index, 2, axis=1))[:, ::2]
    assert np.array_equal(t.detach().gather(dim, strided).numpy(), np.take_along_axis(x, index, dim))
    for bad in (-1, shape[dim]):
        wrong = index.copy()
        wrong[-1, -1] = bad
        with pytest.raises(RuntimeError, match="out of bounds"):
            t.gather(dim, strata.from_numpy(wrong))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape", [(1, 2, 30), (3, 70, 40)])
def test_padding_of_rows(mode, shape):
    x = numbers(*shape)
    t = strata.from_numpy(x).requires_grad_()
    y = F.pad(t, (3, 20), mode=mode)
    expected = np.pad(x, ((0, 0), (0, 0), (3, 20)), {"replicate": "edge", "circular": "wrap"}.get(mode, mode))
    assert np.array_equal(y.detach().numpy(), expected)
    y.sum().backward()
    places = np.pad(np.arange(shape[2]), (3, 20), {"replicate": "edge", "circular": "wrap"}.get(mode, mode))
    counts = np.bincount(places, minlength=shape[2]).astype(float)
    assert np.array_equal(t.grad.numpy(), np.broadcast_to(counts, shape))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("dims", [[1], [0], [0, 1]])
def test_flip_of_rows(dtype, dims):
    t = strata.from_numpy(np.arange(7 * 137).reshape(7, 137) % 100).to(getattr(strata, dtype))
    assert np.array_equal(t.flip(dims).double().numpy(), np.flip(t.double().numpy(), dims))


@pytest.mark.parametrize("n", [1, 31, 32, 65, 511, 513, 70001])
def test_bools_in_bytes(n):
    random = np.random.default_rng(n)
    a, b = random.random(n) > 0.5, random.random(n) > 0.3
    x, y = strata.from_numpy(a), strata.from_numpy(b)
    for ours, theirs in [
        (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (x == y, a == b), (x != y, a != b), (x < y, a < b),
        (x >= y, a >= b), (strata.logical_and(x, y), a & b), (strata.logical_or(x, y), a | b),
        (strata.logical_xor(x, y), a ^ b), (strata.logical_not(x), ~a), (x & True, a), (x | False, a), (x == 1, a),
        (x.to(strata.float32), a), (x.to(strata.int64), a), (strata.where(x, y, x), np.where(a, b, a)),
    ]:  # fmt: skip
        assert np.array_equal(ours.numpy(), theirs)
    assert x.sum().item() == a.sum() and x.any().item() == a.any() and x.all().item() == a.all()
    assert x.prod().item() == a.prod() and strata.count_nonzero(x).item() == a.sum()
    assert x.sum(dtype=strata.float32).item() == a.sum()


def test_bools_from_other_bytes_and_layouts():
    bytes_ = np.array([[0, 1, 2, 255, 128, 0], [7, 0, 0, 64, 1, 3]], np.uint8)
    x = strata.from_numpy(bytes_).view(strata.bool)
    truth = bytes_ != 0
    for t, a in ((x, truth), (x.t(), truth.T), (x[:, ::2], truth[:, ::2])):
        for ours, theirs in [
            (t & t, a),
            (t ^ t, a ^ a),
            (t == t, a == a),
            (strata.logical_not(t), ~a),
            (t & t[:1], a & a[:1]),
        ]:
            assert np.array_equal(ours.numpy(), theirs)
        assert t.sum().item() == a.sum() and t.all(1).tolist() == a.all(1).tolist()
        assert t.to(strata.float32).numpy().tolist() == a.astype(float).tolist()
    out = strata.zeros(2, 6, dtype=strata.bool)
    strata.logical_or(x, strata.zeros(6, dtype=strata.bool), out=out)
    assert np.array_equal(out.numpy(), truth)


@pytest.mark.parametrize("scale", [10, 2**31, 2**51, 2**52, 2**53, 2**62])
def test_integer_division_at_any_magnitude(scale):
    random = np.random.default_rng(3)
    a = random.integers(-scale, scale, 5000)
    for b in (random.integers(1, 1000, 5000) * random.choice([-1, 1], 5000), random.integers(1, scale, 5000)):
        a[:4] = [0, scale - 1, -scale, b[3] * (scale // abs(b[3]))]
        x, y = strata.from_numpy(a), strata.from_numpy(b)
        assert np.array_equal((x // y).numpy(), a // b)
        assert np.array_equal((x % y).numpy(), a % b)
        exact = [
            abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(a.tolist(), b.tolist(), strict=True)
        ]
        assert strata.div(x, y, rounding_mode="trunc").tolist() == exact
        assert np.array_equal(strata.fmod(x, y).numpy(), np.fmod(a, b))
        assert np.array_equal((x // 7).numpy(), a // 7) and np.array_equal((x % -3).numpy(), a % -3)
    with pytest.raises(RuntimeError, match="divided by zero"):
        x // strata.zeros(5000, dtype=strata.int64)


@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (1, 2, 40, 41), (2, 1, 1, 300)])
@pytest.mark.parametrize("size", [(1, 1), (3, 2)])
def test_adaptive_mean_of_wide_windows(shape, size):
    if size[0] > shape[2]:
        size = (1, size[1])
    x = numbers(*shape)
    y = F.adaptive_avg_pool2d(strata.from_numpy(x.astype(np.float32)), size).numpy()
    for i in range(size[0]):
        for j in range(size[1]):
            rows = slice(i * shape[2] // size[0], -(-(i + 1) * shape[2] // size[0]))
            columns = slice(j * shape[3] // size[1], -(-(j + 1) * shape[3] // size[1]))
            np.testing.assert_allclose(y[:, :, i, j], x[:, :, rows, columns].mean((2, 3)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_resizing_copies_elements(mode):
    x = numbers(2, 3, 5, 7).astype(np.float32)
    t = strata.from_numpy(x).requires_grad_()
    y = F.interpolate(t, size=(10, 21), mode=mode)
    half = 0.5 if mode == "nearest-exact" else 0
    rows = np.floor((np.arange(10) + half) * 5 / 10).astype(int)
    columns = np.floor((np.arange(21) + half) * 7 / 21).astype(int)
    assert np.array_equal(y.detach().numpy(), x[:, :, rows][:, :, :, columns])
    y.sum().backward()
    assert np.array_equal(t.grad.numpy(), np.full(x.shape, 6, np.float32))


@pytest.mark.parametrize("n", [1, 15, 17, 139, 1023, 1025, 70001])
def test_extremes_and_sums_of_rows_with_tails(n):
    x = numbers(3, n)
    t = strata.from_numpy(x.astype(np.float32))
    single = x.astype(np.float32)
    assert np.array_equal(t.amax(1).numpy(), single.max(1)) and np.array_equal(t.amin(1).numpy(), single.min(1))
    np.testing.assert_allclose(t.sum(1).numpy(), single.astype(float).sum(1), rtol=1e-5, atol=1e-4)
    t[1, n - 1] = float("nan")
    assert np.isnan(t.amax(1).numpy()).tolist() == [False, True, False]
    assert t.amax((0, 1)).isnan().item() and (t.isnan().any(1)).tolist() == [False, True, False]


def test_random_normal_numbers_do_not_depend_on_the_length_or_threads():
    def draw(n):
        strata.manual_seed(5)
        return strata.randn(n)

    long = same_for_any_thread_count(lambda: draw(70000))
    for n in (2, 6, 34, 256, 300):
        assert np.array_equal(draw(n).numpy(), long.numpy()[:n])
    assert abs(long.mean().item()) < 0.02 and abs(long.std().item() - 1) < 0.02


def test_counts_of_few_and_many_values():
    for high in (1, 5, 1024, 5000):
        values = np.random.default_rng(high).integers(0, high, 9001)
        t = strata.from_numpy(values)
        assert np.array_equal(strata.bincount(t).numpy(), np.bincount(values))
        assert np.array_equal(strata.bincount(t.int(), minlength=2000).numpy(), np.bincount(values, minlength=2000))
    with pytest.raises(RuntimeError, match="non-negative"):
        strata.bincount(strata.tensor([3, -1]))


@pytest.mark.parametrize("shapes", [((30, 5), (4, 5)), ((2, 26, 8), (40, 8)), ((27, 1), (1, 1)), ((0, 3), (26, 3))])
def test_distances_by_products(shapes):
    a, b = (numbers(*s, seed=k) for k, s in enumerate(shapes))
    if b.shape[-2] == 40:
        b[7] = a[0, 3]  # equal rows: the distance is 0, and so is its gradient
    x, y = strata.from_numpy(a).requires_grad_(), strata.from_numpy(b).requires_grad_()
    expected = np.sqrt(((a[..., :, None, :] - b[..., None, :, :]) ** 2).sum(-1))
    for got in (strata.cdist(x, y), strata.cdist(x.detach(), y.detach())):
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-7, atol=1e-7)
    strata.cdist(x, y).sum().backward()
    ours = x.grad.clone()
    x.grad = None
    strata.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").sum().backward()
    assert np.isfinite(ours.numpy()).all()
    far = (expected > 1e-6).all(-1)
    np.testing.assert_allclose(ours.numpy()[far], x.grad.numpy()[far], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 3, 8, 9, 50])
@pytest.mark.parametrize("invert", [False, True])
def test_is_in_few_and_many(count, invert):
    random = np.random.default_rng(count)
    x, tests = random.integers(0, 60, (40, 30)), random.integers(0, 60, count)
    got = strata.isin(strata.from_numpy(x), strata.from_numpy(tests), invert=invert)
    assert np.array_equal(got.numpy(), np.isin(x, tests, invert=invert))
    nan = strata.tensor([1.0, float("nan")])
    assert strata.isin(nan, nan).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mantissas_and_exponents(dtype):
    x = (numbers(3, 30000) * np.exp(numbers(3, 30000, seed=1) * 20)).astype(dtype)
    x[0, :6] = [0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).smallest_subnormal]
    for t, a in ((strata.from_numpy(x), x), (strata.from_numpy(x).t(), x.T)):
        mantissa, exponent = strata.frexp(t)
        expected, powers = np.frexp(a)
        assert np.array_equal(mantissa.numpy(), expected, equal_nan=True)
        assert np.array_equal(exponent.numpy(), powers) and exponent.dtype == strata.int32


@pytest.mark.parametrize("shape", [(3, 5), (20, 1155), (2, 3, 70000), (50, 3, 2)])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_copies_between_differently_aligned_rows(shape, dtype):
    x = (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)
    t = strata.from_numpy(x)
    for shift in (1, 2):
        assert np.array_equal(t.roll(shift, -1).numpy(), np.roll(x, shift, -1))
    assert np.array_equal(t[..., 1:].contiguous().numpy(), x[..., 1:])
    assert np.array_equal(t.repeat_interleave(3, -1).numpy(), np.repeat(x, 3, -1))
    assert np.array_equal(strata.cat([t, t[..., :1]], -1).numpy(), np.concatenate([x, x[..., :1]], -1))


@pytest.mark.parametrize("rows", [1, 40, 3000])
@pytest.mark.parametrize("width", [1, 5, 33, 127])
def test_broadcasting_over_short_rows(rows, width):
    a, row, column = numbers(rows, width), numbers(width, seed=1), numbers(rows, 1, seed=2)
    x, y, z = (strata.from_numpy(v) for v in (a, row, column))
    assert np.array_equal((x + y).numpy(), a + row) and np.array_equal((x * z).numpy(), a * column)
    assert np.array_equal((x.float() + y).numpy(), a.astype(np.float32) + row)
    assert np.array_equal(strata.where(x > z, x, y).numpy(), np.where(a > column, a, row))
    expected = same_for_any_thread_count(lambda: strata.addcmul(x, y, z)).numpy()
    np.testing.assert_allclose(expected, a + row * column, rtol=1e-14, atol=1e-15)
