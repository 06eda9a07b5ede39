"""Scans, sorting, indexing and counting on the virtual GPU at sizes where lines are split, keys sorted in passes and sums split,
compared with NumPy."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
RNG = np.random.default_rng(7)


def there(a, dtype=None):
    return strata.tensor(a, dtype=dtype).to(DEVICE) if dtype else strata.from_numpy(np.ascontiguousarray(a)).to(DEVICE)


def here(t):
    return t.cpu().numpy()


# --- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((70001,), 0), ((3, 40000), 1), ((40000, 3), 0), ((9, 300), 1), ((5, 4200), 0), ((2, 7, 2100), 1), ((600, 5), 1)],
)
def test_scans_of_every_cut(shape, dim):
    x = RNG.standard_normal(shape)
    np.testing.assert_allclose(here(there(x).cumsum(dim)), np.cumsum(x, dim), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(here(there(x).logcumsumexp(dim)), np.logaddexp.accumulate(x, dim), rtol=1e-11)
    whole = RNG.integers(-9, 9, shape)
    np.testing.assert_array_equal(here(there(whole).cumsum(dim)), np.cumsum(whole, dim))
    near = 1 + x / 1000
    np.testing.assert_allclose(here(there(near).cumprod(dim)), np.cumprod(near, dim), rtol=1e-9)
    values, places = there(whole).cummax(dim)
    np.testing.assert_array_equal(here(values), np.maximum.accumulate(whole, dim))
    np.testing.assert_array_equal(np.take_along_axis(whole, here(places), dim), here(values))
    later = np.where(
        whole == here(values), np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))]), 0
    )
    np.testing.assert_array_equal(here(places), np.maximum.accumulate(later, dim))  # of equal ones the last


def test_float_sums_run_in_double():
    x = np.full(50000, 0.1, np.float32)
    np.testing.assert_allclose(here(there(x).cumsum(0))[-1], 0.1 * 50000, rtol=1e-6)


def test_a_nan_stays_in_running_extremes():
    x = np.array([1.0, np.nan, 3.0, np.nan, 0.0])
    values, places = there(x).cummin(0)
    np.testing.assert_array_equal(here(values), [1, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(here(places), [0, 1, 1, 3, 3])


# --- order -----------------------------------------------------------------------------------------------------------

NUMBERS = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("shape", "dim"), [((5000,), 0), ((3, 2500), 1), ((2300, 3), 0), ((40, 50), 1), ((60, 7), 0)])
def test_sort_is_stable_and_complete(dtype, shape, dim):
    x = (RNG.standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind == "f":
        x.reshape(-1)[::97] = np.nan
        x.reshape(-1)[::31] = 0.0
        x.reshape(-1)[::62] = -0.0
    values, places = strata.sort(there(x), dim)
    want = np.argsort(x, dim, kind="stable")
    np.testing.assert_array_equal(here(places), want)
    np.testing.assert_array_equal(here(values), np.take_along_axis(x, want, dim))
    down = here(there(x).argsort(dim, True))
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(down, np.argsort(-x.astype(np.int64), dim, kind="stable"))
    np.testing.assert_array_equal(np.take_along_axis(x, down, dim), np.flip(np.take_along_axis(x, want, dim), dim))


@pytest.mark.parametrize("n", [50, 3000])
def test_selections_agree_with_the_cpu(n):
    x = RNG.integers(0, 40, (4, n)).astype(np.float32)
    x[1, 5] = np.nan
    on_host, on_device = strata.from_numpy(x), there(x)
    for name, args in [
        ("topk", (7,)),
        ("topk", (7, 1, False)),
        ("kthvalue", (11, 1)),
        ("median", (1,)),
        ("nanmedian", (1,)),
        ("mode", (1,)),
    ]:
        for got, want in zip(getattr(on_device, name)(*args), getattr(on_host, name)(*args), strict=True):
            np.testing.assert_array_equal(here(got), want.numpy(), err_msg=name)


def test_unique_of_elements_and_rows():
    x = RNG.integers(0, 30, 5000)
    got = strata.unique(there(x), return_inverse=True, return_counts=True)
    for g, w in zip(got, np.unique(x, return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(here(g), w)
    rows = RNG.integers(0, 3, (200, 3))
    got = strata.unique(there(rows), return_inverse=True, return_counts=True, dim=0)
    for g, w in zip(got, np.unique(rows, return_inverse=True, return_counts=True, axis=0), strict=True):
        np.testing.assert_array_equal(here(g), w.reshape(here(g).shape))
    runs, inverse, counts = strata.unique_consecutive(
        there([4, 4, 1, 4, 4, 4]), return_inverse=True, return_counts=True
    )
    assert here(runs).tolist() == [4, 1, 4] and here(inverse).tolist() == [0, 0, 1, 2, 2, 2]
    assert here(counts).tolist() == [2, 1, 3]


def test_searching_and_counting():
    edges, x = np.sort(RNG.standard_normal(300)), RNG.standard_normal((20, 30))
    for side in ("left", "right"):
        got = strata.searchsorted(there(edges), there(x), side=side)
        np.testing.assert_array_equal(here(got), np.searchsorted(edges, x, side))
    rows = np.sort(RNG.standard_normal((20, 9)), 1)
    want = np.stack([np.searchsorted(r, v) for r, v in zip(rows, x, strict=True)])
    np.testing.assert_array_equal(here(strata.searchsorted(there(rows), there(x))), want)
    whole, weights = RNG.integers(0, 50, 3000), RNG.standard_normal(3000)
    np.testing.assert_array_equal(here(strata.bincount(there(whole), minlength=60)), np.bincount(whole, minlength=60))
    np.testing.assert_allclose(
        here(strata.bincount(there(whole), there(weights))), np.bincount(whole, weights), atol=1e-12
    )
    np.testing.assert_array_equal(here(strata.isin(there(whole), there([3, 7]))), np.isin(whole, [3, 7]))
    want, _ = np.histogram(x, 12, (-1, 1))
    np.testing.assert_array_equal(here(strata.histc(there(x), 12, -1, 1)), want)
    want, _ = np.histogram(x, edges[::20])
    np.testing.assert_array_equal(here(strata.histogram(there(x), there(edges[::20]))[0]), want)
    repeats = RNG.integers(0, 4, 500)
    got = there(np.arange(500)).repeat_interleave(there(repeats))
    np.testing.assert_array_equal(here(got), np.repeat(np.arange(500), repeats))
    with pytest.raises(RuntimeError, match="negative"):
        strata.bincount(there([1, -1]))


# --- indexing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8"])
@pytest.mark.parametrize("n", [9, 700])
def test_rows_added_and_assigned(dtype, n):
    table, values = (RNG.integers(0, 9, s).astype(dtype) for s in ((40, 6), (n, 6)))
    index = RNG.integers(-40, 40, n)
    want = table.copy()
    np.add.at(want, index, values)
    np.testing.assert_array_equal(here(there(table).index_put((there(index),), there(values), accumulate=True)), want)
    want = table.copy()
    for i, v in zip(index, values, strict=True):  # the last one wins
        want[i] = v
    np.testing.assert_array_equal(here(there(table).index_put((there(index),), there(values))), want)
    view = there(np.repeat(table, 2, 1))
    view[:, ::2].index_add_(0, there(index % 40), there(values))
    want = np.repeat(table, 2, 1)
    np.add.at(want[:, ::2], index, values)
    np.testing.assert_array_equal(here(view), want)


def test_rows_by_several_indices():
    x = RNG.standard_normal((5, 6, 7, 3)).astype(np.float32)
    i, j = RNG.integers(0, 6, (4, 1)), RNG.integers(-7, 7, 50)
    np.testing.assert_array_equal(here(there(x)[:, there(i), there(j)]), x[:, i, j])
    np.testing.assert_array_equal(
        here(there(x).permute(3, 1, 2, 0)[:, there(i), there(j)]), x.transpose(3, 1, 2, 0)[:, i, j]
    )
    values = RNG.standard_normal((5, 4, 50, 3)).astype(np.float64)
    got = there(x.astype(np.float64)).index_put((None, there(i), there(j)), there(values), accumulate=True)
    want = x.astype(np.float64)
    np.add.at(want, (slice(None), i, j), values)
    np.testing.assert_allclose(here(got), want, atol=1e-12)


@pytest.mark.parametrize(("shape", "dim"), [((50, 4), 0), ((4, 50), 1), ((3, 20, 4), 1)])
@pytest.mark.parametrize("length", [5, 900])
def test_scatter_along_a_dimension(shape, dim, length):
    x = RNG.standard_normal(shape)
    many = tuple(length if d == dim else s for d, s in enumerate(shape))
    index, src = RNG.integers(0, shape[dim], many), RNG.standard_normal(many)
    flat = {"sum": np.add, "amax": np.maximum, "amin": np.minimum, "prod": np.multiply}
    grid = list(np.indices(many))
    grid[dim] = index
    for reduce, function in flat.items():
        want = x.copy()
        function.at(want, tuple(grid), src)
        got = there(x).scatter_reduce(dim, there(index), there(src), reduce)
        np.testing.assert_allclose(here(got), want, rtol=1e-10, atol=1e-12)
    want = x.copy()
    for at in np.ndindex(*many):
        want[tuple(g[at] for g in grid)] = src[at]
    np.testing.assert_array_equal(here(there(x).scatter(dim, there(index), there(src))), want)
    np.testing.assert_array_equal(here(there(x).gather(dim, there(index))), np.take_along_axis(x, index, dim))


def test_sums_at_one_place_are_the_same_bits_each_time():
    src, index = there(RNG.standard_normal(20000).astype(np.float32)), there(RNG.integers(0, 3, 20000))
    runs = [here(strata.zeros(3, device=DEVICE).index_add(0, index, src)).tobytes() for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


def test_nonzero_in_order():
    x = RNG.integers(0, 3, (30, 40, 11)) - 1
    np.testing.assert_array_equal(here(there(x).nonzero()), np.argwhere(x))
    np.testing.assert_array_equal(here(there(x).transpose(0, 2).nonzero()), np.argwhere(x.transpose(2, 1, 0)))
    np.testing.assert_array_equal(here(there(x)[there(x > 0)]), x[x > 0])
    assert tuple(there(np.zeros((4, 5))).nonzero().shape) == (0, 2)


def test_embedding_and_its_gradient():
    weight, index = RNG.standard_normal((20, 5)), RNG.integers(0, 20, (30, 10))
    table = there(weight).requires_grad_()
    rows = strata.nn.functional.embedding(there(index), table, 3)
    np.testing.assert_array_equal(here(rows.detach()), weight[index])
    seed = RNG.standard_normal((30, 10, 5))
    rows.backward(there(seed))
    want = np.zeros_like(weight)
    np.add.at(want, index, seed)
    want[3] = 0
    np.testing.assert_allclose(here(table.grad), want, atol=1e-12)
    table.grad = None
    strata.nn.functional.embedding(there(index), table, scale_grad_by_freq=True).backward(there(seed))
    want = np.zeros_like(weight)
    np.add.at(want, index, seed)
    np.testing.assert_allclose(
        here(table.grad), want / np.bincount(index.reshape(-1), minlength=20)[:, None], atol=1e-12
    )


def test_bags_of_rows():
    weight, index, offsets = RNG.standard_normal((20, 5)), RNG.integers(0, 20, 60), np.array([0, 7, 7, 31])
    for mode, function in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        got = strata.nn.functional.embedding_bag(there(index), there(weight), there(offsets), mode=mode)
        want = np.zeros((4, 5))
        for b, (start, stop) in enumerate(zip(offsets, [*offsets[1:], 60], strict=True)):
            if stop > start:
                want[b] = function(weight[index[start:stop]], 0)
        np.testing.assert_allclose(here(got), want, atol=1e-12, err_msg=mode)
    with pytest.raises(ValueError, match="must rise"):
        strata.nn.functional.embedding_bag(there(index), there(weight), there(np.array([0, 9, 5])))


def test_triangles():
    x = RNG.standard_normal((3, 20, 30)).astype(np.float32)
    for k in (-25, -3, 0, 4, 40):
        np.testing.assert_array_equal(here(there(x).tril(k)), np.tril(x, k))
        np.testing.assert_array_equal(here(there(x).transpose(1, 2).triu(k)), np.triu(x.transpose(0, 2, 1), k))


def index_select(x, i):
    return x.index_select(0, i)


def take(x, i):
    return x.take(i)


def gather(x, i):
    return x.gather(0, i)


def scatter_add(x, i):
    return x.scatter_add(0, i, strata.ones(3, device=DEVICE))


def index_fill(x, i):
    return x.index_fill(0, i, 1.0)


def by_brackets(x, i):
    return x[i]


def rows_of_a_table(x, i):
    return strata.nn.functional.embedding(i, x.reshape(4, 1))


@pytest.mark.parametrize(
    "function",
    [index_select, take, gather, scatter_add, index_fill, by_brackets, rows_of_a_table],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("bad", [4, -5])
def test_an_index_out_of_range_is_raised_and_the_device_stays_usable(function, bad):
    x = strata.arange(4.0, device=DEVICE)
    with pytest.raises(IndexError, match=f"index {bad} is out of"):
        function(x, there([0, bad, 1])).cpu()
    assert here(x).tolist() == [0, 1, 2, 3]


def test_an_index_into_nothing_is_an_error():
    with pytest.raises(IndexError, match="size 0"):
        strata.zeros(0, 3, device=DEVICE)[there([0])]


# --- assignment ------------------------------------------------------------------------------------------------------


KEYS = {
    "mask": lambda x: x > 0,
    "list": lambda x: [0, 2],
    "host index": lambda x: strata.tensor([1, 1, 0]),
    "integer": lambda x: 1,
    "slice": lambda x: slice(1, None),
    "true": lambda x: True,
    "ellipsis": lambda x: ...,
}
VALUES = {
    "integer": 3,
    "float": 2.5,
    "bool": True,
    "host number": strata.tensor(1.5),
    "list": [1.5],
    "array": np.array([2.0]),
}


@pytest.mark.parametrize("dtype", [strata.float32, strata.int64, strata.bool, strata.bfloat16])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_assigned_values_may_come_from_the_host(key, value, dtype):
    host = strata.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).to(dtype)
    device = host.to(DEVICE)
    host[KEYS[key](host)] = VALUES[value]
    device[KEYS[key](device)] = VALUES[value]
    assert device.cpu().tolist() == host.tolist()


def test_a_host_tensor_of_several_elements_is_refused_beside_an_index():
    x = strata.zeros(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="same device"):
        x[[0, 1]] = strata.tensor([1.0, 2.0])


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (3, 0, 2), (2, 3, 0, 4), (1, 0, 1)])
def test_indexing_of_empty_tensors_in_any_dimension(shape):
    host = strata.ones(shape)
    device = host.to(DEVICE)
    for key in (lambda x: x > 0, lambda x: strata.zeros(0, dtype=strata.int64), lambda x: (Ellipsis, x[..., :0] > 0)):
        try:
            want = host[key(host)]
        except IndexError:
            with pytest.raises(IndexError):
                device[key(device)]
            continue
        assert device[key(device)].shape == want.shape
        host[key(host)] = 2.0
        device[key(device)] = 2.0
    if shape[0]:
        assert device[[0, 0]].shape == host[[0, 0]].shape
        device[[0]] = 1.0
        device.transpose(0, -1).contiguous()
        assert device.index_select(0, strata.zeros(2, dtype=strata.int64, device=DEVICE)).shape == (2, *shape[1:])
    strata.vgpu.synchronize() if DEVICE == "vgpu" else strata.cuda.synchronize()


# --- exact sums --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("targets", "n"), [(1, 20000), (700, 16384), (3000, 40001)])
def test_sums_into_a_vector_are_exact(targets, n, dtype):
    index = RNG.integers(0, targets, n)
    values = strata.tensor(RNG.standard_normal(n) * 10.0 ** RNG.integers(-6, 3, n)).to(getattr(strata, dtype))
    table = strata.tensor(RNG.standard_normal(targets)).to(getattr(strata, dtype))
    got = table.to(DEVICE).scatter_add(0, there(index), values.to(DEVICE)).cpu()
    want = np.array(table.double().tolist())
    np.add.at(want, index, np.array(values.double().tolist()))
    assert got.tolist() == strata.tensor(want).to(strata.float32).to(getattr(strata, dtype)).tolist()


@pytest.mark.parametrize(("lines", "size", "length"), [(64, 4096, 4096), (70, 100, 333), (65, 1, 80), (64, 300, 75)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_into_lines(lines, size, length, dtype):
    if lines * length > 50000 and dtype != "float32":
        length = 700
    index = RNG.integers(0, size, (lines, length))
    values = strata.tensor(RNG.standard_normal((lines, length))).to(getattr(strata, dtype))
    table = strata.tensor(RNG.standard_normal((lines + 2, size))).to(getattr(strata, dtype))
    got = table.to(DEVICE).scatter_add(1, there(index), values.to(DEVICE)).cpu()
    want = np.array(table.double().tolist())
    for line in range(lines):
        np.add.at(want[line], index[line], np.array(values[line].double().tolist()))
    rtol = 1e-6 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(np.array(got.double().tolist()), want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("shape", [(20000,), (64, 500)])
def test_sums_of_special_floats(shape):
    specials = np.array([np.inf, -np.inf, np.nan, 1e38, -3e36, 1e-45, -3e-39, 0.0, -0.0, 1.0, 2.0**-100], np.float32)
    values = RNG.choice(specials, shape)
    values[RNG.random(shape) < 0.95] = 2.0**-140  # so that some sums are finite
    index = RNG.integers(0, 400, shape)
    table = np.full((*shape[:-1], 400), -0.0, np.float32)
    got = here(there(table).scatter_add(len(shape) - 1, there(index), there(values)))
    want = table.astype(np.float64)
    lines = zip(want.reshape(-1, 400), index.reshape(-1, shape[-1]), values.reshape(-1, shape[-1]), strict=True)
    for line, at, v in lines:
        with np.errstate(invalid="ignore"):
            np.add.at(line, at, v.astype(np.float64))
    with np.errstate(over="ignore"):
        want = want.astype(np.float32)
    assert np.isfinite(want).any() and np.isnan(want).any()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-40)


def test_sums_do_not_lose_small_values_beside_large_ones():
    values = np.tile(np.array([1e20, 1.0, -1e20, 2.0], np.float32), 8000)
    got = there(np.zeros(3, np.float32)).scatter_add(0, there(np.zeros(32000, np.int64)), there(values))
    assert here(got).tolist() == [24000, 0, 0]


def test_sums_keep_the_sign_of_untouched_zeros_and_report_bad_indices():
    table, values = np.full(500, -0.0, np.float32), np.ones(20000, np.float32)
    got = here(there(table).scatter_add(0, there(np.full(20000, 3)), there(values)))
    assert np.signbit(got).sum() == 499 and got[3] == 20000
    for shape, bad in (((20000,), 500), ((64, 500), -1)):
        index = np.zeros(shape, np.int64)
        index.reshape(-1)[77] = bad
        with pytest.raises(IndexError):
            there(np.zeros((*shape[:-1], 500), np.float32)).scatter_add(
                len(shape) - 1, there(index), there(np.ones(shape, np.float32))
            ).cpu()


# --- the last of equal indices wins ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 63, 1000])
def test_few_indices_of_many_rows(n):
    table, values = np.zeros(100000, np.float32), RNG.standard_normal(n).astype(np.float32)
    index = RNG.integers(-50000, 50000, n)
    index[n // 2 :] = index[: n - n // 2]  # each twice
    got = there(table).index_put_((there(index),), there(values))
    table[index] = values
    np.testing.assert_array_equal(here(got), table)
    grid = np.zeros((300, 400, 3), np.float32)
    at, rows = (RNG.integers(0, 300, n), RNG.integers(0, 2, n)), RNG.standard_normal((n, 3)).astype(np.float32)
    got = there(grid).index_put_((there(at[0]), there(at[1])), there(rows))
    grid[at] = rows
    np.testing.assert_array_equal(here(got), grid)
    index[0] = 100000
    with pytest.raises(IndexError):
        there(table).index_put_((there(index),), there(values)).cpu()
