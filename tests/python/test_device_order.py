"""Sorts, selections, scans, counts and sums by index on the virtual GPU, at sizes around those where the method changes, compared
with NumPy."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
RNG = np.random.default_rng(11)


def there(a):
    return strata.from_numpy(np.ascontiguousarray(a)).to(DEVICE)


def here(t):
    return t.cpu().numpy()


def numbers(dtype, shape):
    """Numbers with repetitions; floats with NaN, infinities and both zeros."""
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        x = RNG.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
        return np.where(RNG.random(shape) < 0.3, kind.type(7), x)
    x = RNG.standard_normal(shape).astype(kind)
    for value, share in ((np.nan, 0.02), (np.inf, 0.02), (-np.inf, 0.02), (0.0, 0.05), (-0.0, 0.05), (1.5, 0.1)):
        x[RNG.random(shape) < share] = value
    return x


def order_of(x, descending=False, axis=-1):
    """A stable order with NaN as the largest number and -0 equal to 0."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    _, ranks = np.unique(x, return_inverse=True, equal_nan=True)
    return np.argsort(-ranks.reshape(x.shape), axis, kind="stable")


def same_bits(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got.view(np.uint8), np.ascontiguousarray(want).view(np.uint8))


ALL = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32"]


# --- sort --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(2049,), (4097,), (8193,), (2, 4096), (3, 8192), (2, 9001)])
def test_sort_of_every_dtype_at_the_limits_of_the_methods(dtype, shape, descending):
    x = numbers(dtype, shape)
    values, places = there(x).sort(-1, descending)
    want = order_of(x, descending)
    np.testing.assert_array_equal(here(places), want)
    same_bits(here(values), np.take_along_axis(x, want, -1))  # NaN and -0 keep their bits


@pytest.mark.parametrize("n", [0, 1, 2, 31, 33, 2047, 2048, 16383, 16384, 16385, 40001])
def test_sort_of_lengths(n):
    x = RNG.standard_normal(n).astype(np.float32)
    values, places = there(x).sort()
    want = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(here(places), want)
    np.testing.assert_array_equal(here(values), x[want])


@pytest.mark.parametrize("shape", [(9000, 3), (2, 9000, 2), (5000, 2, 2)])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_across_lines(shape, descending):
    dim = int(np.argmax(shape))
    x = numbers("int32", shape) % 100
    values, places = there(x).sort(dim, descending)
    want = order_of(x, descending, dim)
    np.testing.assert_array_equal(here(places), want)
    np.testing.assert_array_equal(here(values), np.take_along_axis(x, want, dim))
    strided = there(np.repeat(x, 2, 0))[::2]
    np.testing.assert_array_equal(here(strided.argsort(dim, descending)), want)


@pytest.mark.parametrize("dtype", ["int64", "float64", "int32"])
def test_digits_that_are_the_same_everywhere_are_skipped(dtype):
    constant = np.full(20000, 5, dtype)
    values, places = there(constant).sort()
    np.testing.assert_array_equal(here(places), np.arange(20000))
    np.testing.assert_array_equal(here(values), constant)
    # each line differs in other digits, so each skips other passes
    x = np.stack([RNG.integers(0, 4, 9000) << shift for shift in (0, 8, 16, 24)]).astype(dtype)
    x = np.concatenate([x, np.full((1, 9000), 9, dtype)])
    values, places = there(x).sort(-1)
    want = np.argsort(x, -1, kind="stable")
    np.testing.assert_array_equal(here(places), want)
    np.testing.assert_array_equal(here(values), np.take_along_axis(x, want, -1))
    short = x[:, :5000]
    np.testing.assert_array_equal(here(there(short).argsort(-1)), np.argsort(short, -1, kind="stable"))


def test_sort_of_bfloat16():
    x = strata.from_numpy(RNG.standard_normal((3, 9000)).astype(np.float32)).bfloat16()
    values, places = x.to(DEVICE).sort(-1)
    want = np.argsort(x.float().numpy(), -1, kind="stable")
    np.testing.assert_array_equal(here(places), want)
    np.testing.assert_array_equal(here(values.float()), np.take_along_axis(x.float().numpy(), want, -1))


def test_gradient_of_a_long_sort():
    x = there(RNG.standard_normal(9000)).requires_grad_()
    weight = there(RNG.standard_normal(9000))
    (x.sort()[0] * weight).sum().backward()
    want = np.empty(9000)
    want[np.argsort(here(x.detach()))] = here(weight)
    np.testing.assert_array_equal(here(x.grad), want)


# --- the first of a line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize(
    ("shape", "k"), [((50000,), 8), ((3, 30011), 50), ((2, 20000), 2000), ((70000,), 1), ((9, 2049), 2049)]
)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_long_lines_takes_the_first_of_equal_elements(dtype, shape, k, largest):
    x = numbers(dtype, shape)
    if np.dtype(dtype).kind == "i":
        x %= 50
    values, places = there(x).topk(k, -1, largest)
    want = order_of(x, largest)[..., :k]
    np.testing.assert_array_equal(here(places), want)
    same_bits(here(values), np.take_along_axis(x, want, -1))


def test_topk_across_lines():
    x = RNG.integers(0, 1000, (40000, 3))
    values, places = there(x).topk(5, 0)
    want = order_of(x, True, 0)[:5]
    np.testing.assert_array_equal(here(places), want)
    np.testing.assert_array_equal(here(values), np.take_along_axis(x, want, 0))


# --- scans ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [16383, 16384, 4096 * 32, 4096 * 32 + 1, 4096 * 70 - 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_running_sums_of_long_vectors(n, dtype):
    x = RNG.standard_normal(n) if dtype.startswith("f") else RNG.integers(-100, 100, n)
    x = x.astype(dtype)
    got = here(there(x).cumsum(0))
    want = np.cumsum(x, dtype="float64" if dtype.startswith("f") else "int64")
    np.testing.assert_allclose(got, want, rtol=2e-7 if dtype == "float32" else 1e-12, atol=1e-9)
    np.testing.assert_array_equal(here(there(x).cumsum(0)), got)  # the same bits each time


def test_running_log_sums_of_floats_of_any_size():
    for scale in (1, 50, 1000):
        x = (RNG.standard_normal(40000) * scale).astype(np.float32)
        want = np.logaddexp.accumulate(x.astype(np.float64))
        np.testing.assert_allclose(here(there(x).logcumsumexp(0)), want, rtol=1e-6, atol=1e-6)
    x[[5, 20000]] = [-np.inf, np.inf]
    x[0] = -np.inf
    want = np.logaddexp.accumulate(x.astype(np.float64))
    np.testing.assert_allclose(here(there(x).logcumsumexp(0)), want, rtol=1e-6)
    x[30000] = np.nan
    got = here(there(x).logcumsumexp(0))
    assert np.isnan(got[30000:]).all() and not np.isnan(got[:30000]).any()
    small = there(np.array([0, -20, -20], np.float32)).logcumsumexp(0)  # log1p of a small number
    np.testing.assert_allclose(here(small), np.logaddexp.accumulate([0.0, -20, -20]), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_running_extremes_of_long_vectors(dtype):
    x = RNG.integers(-50, 50, 150001).astype(dtype)
    if dtype == "float32":
        x[90000] = np.nan
    for op, accumulate in (("cummax", np.maximum), ("cummin", np.minimum)):
        values, places = getattr(there(x), op)(0)
        want = accumulate.accumulate(x)
        np.testing.assert_array_equal(here(values), want)
        np.testing.assert_array_equal(x[here(places)], want)
        assert (np.diff(here(places)) >= 0).all()


# --- permutations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [16383, 16384, 40001])
@pytest.mark.parametrize("dtype", [strata.int64, strata.int32])
def test_permutations_are_the_same_on_every_device(n, dtype):
    both = []
    for device in ("cpu", DEVICE):
        strata.manual_seed(5)
        both.append(here(strata.randperm(n, dtype=dtype, device=device)))
        both.append(here(strata.randperm(n, device=device)))
    np.testing.assert_array_equal(both[0], both[2])
    np.testing.assert_array_equal(both[1], both[3])
    np.testing.assert_array_equal(np.sort(both[0]), np.arange(n))
    assert (both[0] != both[1]).mean() > 0.99  # the generator went on
    assert abs(np.corrcoef(both[1], np.arange(n))[0, 1]) < 0.03


# --- counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [1, 7, 1000, 8192, 8193, 50000])
def test_bincount(bins):
    x = RNG.integers(0, bins, 30011)
    np.testing.assert_array_equal(here(strata.bincount(there(x))), np.bincount(x))
    np.testing.assert_array_equal(
        here(strata.bincount(there(x), minlength=bins + 5)), np.bincount(x, minlength=bins + 5)
    )
    narrow = (x % 100).astype(np.uint8)
    np.testing.assert_array_equal(here(strata.bincount(there(narrow))), np.bincount(narrow))
    weights = RNG.standard_normal(x.size)
    np.testing.assert_allclose(here(strata.bincount(there(x), there(weights))), np.bincount(x, weights), atol=1e-10)


def test_bincount_of_extremes_and_of_nothing():
    assert here(strata.bincount(there(np.zeros(0, np.int64)), minlength=3)).tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="non-negative"):
        strata.bincount(there(np.array([3, -1])))
    with pytest.raises(RuntimeError, match="non-negative"):
        strata.bincount(there(np.array([np.iinfo(np.int64).min])))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("bins", [1, 100, 9000])
def test_histc_counts_as_the_cpu_does(dtype, bins):
    x = numbers(dtype, 20011)
    got = strata.histc(there(x), bins, -2, 3)
    np.testing.assert_array_equal(here(got), strata.histc(strata.from_numpy(x), bins, -2, 3).numpy())
    edges = np.array([-2.0, 3.0, -2.0000001, 3.0000001, np.nan]).astype(dtype)
    got = here(strata.histc(there(edges), bins, -2, 3))
    np.testing.assert_array_equal(got, strata.histc(strata.from_numpy(edges), bins, -2, 3).numpy())


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "float64"])
@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 20000])
def test_unique_of_lengths(dtype, n):
    x = (numbers(dtype, n) if dtype == "bool" else RNG.integers(-40, 40, n)).astype(dtype)
    got = strata.unique(there(x), return_inverse=True, return_counts=True)
    for g, w in zip(got, np.unique(x, return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(here(g), w)
    runs, inverse, counts = strata.unique_consecutive(there(x), return_inverse=True, return_counts=True)
    starts = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]])[:n])
    np.testing.assert_array_equal(here(runs), x[starts])
    np.testing.assert_array_equal(here(counts), np.diff(np.append(starts, n)))
    np.testing.assert_array_equal(here(inverse), np.searchsorted(starts, np.arange(n), "right") - 1)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("n", [0, 1, 5000, 20000])
def test_unique_without_the_inverse(dtype, n):
    x = numbers(dtype, n)
    values, counts = strata.unique(there(x), return_counts=True)
    want, sizes = np.unique(x, return_counts=True, equal_nan=False)
    np.testing.assert_array_equal(here(values), want)
    np.testing.assert_array_equal(here(counts), sizes)
    np.testing.assert_array_equal(here(strata.unique(there(x))), want)


def test_unique_passes_gradients_to_the_first_of_equals():
    x = there(np.array([2.0, 1.0, 2.0, 3.0])).requires_grad_()
    strata.unique(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 0, 1]


def test_unique_of_nan_and_zeros():
    x = np.array([np.nan, 0.0, -0.0, np.nan, 1.0, 1.0])
    values, counts = strata.unique(there(x), return_counts=True)
    np.testing.assert_array_equal(here(values), [0, 1, np.nan, np.nan])
    assert here(counts).tolist() == [2, 2, 1, 1]


# --- compaction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (1,), (4096,), (4097,), (3, 7, 2011), (200, 300)])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
def test_nonzero_and_masked_select(shape, share):
    mask = RNG.random(shape) < share
    np.testing.assert_array_equal(here(there(mask).nonzero()), np.argwhere(mask))
    for dtype in ("float32", "int64", "int8", "float16"):
        x = RNG.integers(-100, 100, shape).astype(dtype)
        np.testing.assert_array_equal(here(there(x).masked_select(there(mask))), x[mask])
    assert strata.count_nonzero(there(mask)).item() == mask.sum()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 511, 512, 513, 4095, 4096, 4097, 20000])
def test_nonzero_of_lengths(n, dtype):
    x = (RNG.random(n + 1) < 0.4).astype(dtype)
    t = there(x)
    for begin in (0, 1):  # aligned and not
        part = x[begin : begin + n]
        np.testing.assert_array_equal(here(t[begin : begin + n].nonzero()), np.argwhere(part))
        picked = there(np.arange(n)).masked_select(t[begin : begin + n] != 0)
        np.testing.assert_array_equal(here(picked), np.flatnonzero(part))


def test_masked_select_of_views_and_its_gradient():
    x, mask = RNG.standard_normal((90, 70)), RNG.random((70, 90)) < 0.5
    np.testing.assert_array_equal(here(there(x).T.masked_select(there(mask))), x.T[mask])
    np.testing.assert_array_equal(here(there(x).masked_select(there(mask[:, 0]))), x[:, mask[:, 0]].ravel())
    leaf = there(x).requires_grad_()
    leaf.T.masked_select(there(mask)).sum().backward()
    np.testing.assert_array_equal(here(leaf.grad), mask.T.astype(x.dtype))


# --- sums by index -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16"])
@pytest.mark.parametrize("rows", [1, 3, 300, 70000])
def test_scatter_add_of_vectors(dtype, rows):
    n = 10007
    index = RNG.integers(0, rows, n)
    x, values = (RNG.integers(-8, 8, k).astype(dtype) for k in (rows, n))
    want = x.astype("float64")
    np.add.at(want, index, values)
    got = here(there(x).scatter_add(0, there(index), there(values)))
    np.testing.assert_array_equal(got, want.astype(dtype))


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 3000), 1), ((2, 9000), 1), ((3000, 5), 0), ((4200, 70), 1), ((70, 4200), 0)]
)
def test_scatter_reduce_along_lines(reduce, shape, dim):
    index = RNG.integers(0, shape[dim], shape)
    x, values = RNG.standard_normal(shape), RNG.choice([-1.5, -1, 1, 1.25, 2], shape)
    want = strata.from_numpy(x).scatter_reduce(dim, strata.from_numpy(index), strata.from_numpy(values), reduce)
    got = there(x).scatter_reduce(dim, there(index), there(values), reduce)
    np.testing.assert_allclose(here(got), want.numpy(), rtol=1e-12, atol=1e-12)


def test_sums_have_the_same_bits_each_time():
    index, values = there(RNG.integers(0, 50, 60000)), there(RNG.standard_normal(60000).astype(np.float32))
    first = here(strata.zeros(50, device=DEVICE).scatter_add(0, index, values))
    for _ in range(2):
        np.testing.assert_array_equal(here(strata.zeros(50, device=DEVICE).scatter_add(0, index, values)), first)
    exact = np.zeros(50)
    np.add.at(exact, here(index), here(values).astype(np.float64))
    np.testing.assert_allclose(first, exact, atol=2e-3)


def test_an_index_out_of_range_along_lines():
    index = RNG.integers(0, 3000, (4, 3000))
    index[1, 7] = 3000
    x = strata.zeros(4, 3000, device=DEVICE)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        here(x.scatter_add(1, there(index), strata.ones(4, 3000, device=DEVICE)))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        here(strata.zeros(4, 3000, device=DEVICE, dtype=strata.int64).scatter_add(1, there(index), there(index)))
