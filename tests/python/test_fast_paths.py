"""Loops that were added for speed, compared with NumPy at the sizes where one path ends and the next begins."""

import itertools
import math

import numpy as np
import pytest
import strata
from numpy.lib.stride_tricks import sliding_window_view

LENGTHS = [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 127, 128, 129, 300]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def both_thread_counts(f):
    """f() with one thread and with two, which must give the same bits."""
    before, results = strata.get_num_threads(), []
    try:
        for n in (1, 2):
            strata.set_num_threads(n)
            results.append(f())
    finally:
        strata.set_num_threads(before)
    assert results[0].tobytes() == results[1].tobytes()
    return results[0]


# --- broadcast rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "int32", "bool"])
def test_rows_of_broadcast_operands(n, dtype):
    rows = max(3, 70000 // n)
    shapes = [
        ((rows, n), (rows, 1)),
        ((rows, n), (n,)),
        ((rows, 1), (n,)),
        ((rows // 3, 1, n), (3, 1)),
        ((rows, n), ()),
    ]
    for a_shape, b_shape in shapes:
        a, b = (np.round(numbers(*s, seed=k) * 4) for k, s in enumerate((a_shape, b_shape)))
        x, y = strata.tensor(a).to(getattr(strata, dtype)), strata.tensor(b).to(getattr(strata, dtype))
        if dtype == "bool":
            got = both_thread_counts(lambda x=x, y=y: strata.logical_xor(x, y).numpy())
            assert np.array_equal(got, (a != 0) ^ (b != 0))
        else:
            got = both_thread_counts(lambda x=x, y=y: (x * y).to(strata.float32).numpy())
            assert np.array_equal(got, a * b)


@pytest.mark.parametrize("n", [5, 16, 40, 130])
def test_rows_of_views(n):
    x, y = numbers(4, 60, 2 * n), numbers(60, n, seed=1)
    expected = x[:, ::2, :n] + y[::2]
    assert np.array_equal((strata.tensor(x)[:, ::2, :n] + strata.tensor(y)[::2]).numpy(), expected)
    assert np.array_equal((strata.tensor(x)[:, ::2, ::2] + strata.tensor(y)[::2]).numpy(), x[:, ::2, ::2] + y[::2])
    out = strata.zeros(4, 30, 2 * n)
    strata.add(strata.tensor(x)[:, ::2, :n], strata.tensor(y)[::2], out=out[..., n:])
    assert np.array_equal(out.numpy()[..., n:], expected) and not out.numpy()[..., :n].any()


# --- pointwise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter_at_every_kind_of_number(dtype):
    info = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, info.max, info.min, info.tiny, -info.tiny,
               info.smallest_subnormal, -info.smallest_subnormal, 1 + info.eps, 2.0, -2.0, 0.5]  # fmt: skip
    a, b = (v.ravel() for v in np.meshgrid(np.array(special, dtype), np.array(special, dtype)))
    with np.errstate(over="ignore"):
        expected = np.nextafter(a, b)
    got = strata.nextafter(strata.tensor(a), strata.tensor(b)).numpy()
    assert np.array_equal(got, expected, equal_nan=True)
    known = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[known]), np.signbit(expected[known]))


def test_positive_is_the_tensor_itself():
    x = strata.tensor([1.0, -2.0]).requires_grad_()
    assert (+x).data_ptr() == x.data_ptr()
    (+x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="bool"):
        strata.positive(strata.tensor([True]))


def test_gradient_of_rsqrt():
    x = np.linspace(0.01, 50, 1000)
    t = strata.tensor(x).requires_grad_()
    t.rsqrt().sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), -0.5 * x**-1.5, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "bfloat16", "float16", "int64", "float64", "complex128"])
@pytest.mark.parametrize("n", [1, 7, 1000, 100003])
def test_fill_of_every_element_size(dtype, n):
    t = strata.full((n,), 1, dtype=getattr(strata, dtype))
    assert t.dtype == getattr(strata, dtype) and t.shape == (n,) and (t == 1).all()
    half = strata.zeros(2 * n, dtype=getattr(strata, dtype))
    half[::2].fill_(1)
    assert (half == 1).sum().item() == n and (half[1::2] == 0).all()


# --- masks ------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.swapaxes(0, -1),
    "sliced": lambda x: x[..., ::2],
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(70001,), (300, 301), (40, 41, 42), (5, 6, 7, 300), (1, 1), (0, 3)])
def test_elements_that_are_not_zero(shape, layout):
    random = np.random.default_rng(1)
    view = LAYOUTS[layout]
    for made in (
        random.random(shape) > 0.4,
        (random.random(shape) > 0.5) * numbers(*shape),
        random.integers(0, 2, shape),
    ):
        x, t = view(made), view_of(strata.tensor(made), layout)
        assert np.array_equal(strata.nonzero(t).numpy(), np.argwhere(x))
        assert strata.count_nonzero(t).item() == np.count_nonzero(x)
        values = numbers(*x.shape, seed=2)
        assert np.array_equal(strata.tensor(values)[t != 0].numpy(), values[x != 0])
        assert np.array_equal(strata.masked_select(strata.tensor(values), t != 0).numpy(), values[x != 0])


def view_of(t, layout):
    if layout == "transposed":
        return t.transpose(0, -1)
    if layout == "sliced":
        return t[..., ::2]
    return t[:1].expand(t.shape) if layout == "repeated" else t


def test_masks_of_other_bytes_than_0_and_1():
    mask = strata.tensor(np.array([0, 1, 2, 255, 128, 0, 7, 64, 0, 3], np.uint8)).view(strata.bool)
    assert strata.nonzero(mask).flatten().tolist() == [1, 2, 3, 4, 6, 7, 9]
    assert strata.arange(10)[mask].tolist() == [1, 2, 3, 4, 6, 7, 9]


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "uint8", "bfloat16"])
@pytest.mark.parametrize("n", [0, 1, 2, 1000, 70000])
def test_unique(n, dtype):
    x = np.random.default_rng(n).integers(0, 2 if dtype == "bool" else 9, n)
    t = strata.tensor(x).to(getattr(strata, dtype))
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    got = strata.unique(t, return_inverse=True, return_counts=True)
    assert got[0].dtype == t.dtype and got[0].to(strata.int64).tolist() == values.tolist()
    assert got[1].tolist() == inverse.tolist() and got[2].tolist() == counts.tolist()
    assert strata.unique(t).to(strata.int64).tolist() == values.tolist()

    starts = np.flatnonzero(np.diff(x, prepend=-1))
    got = strata.unique_consecutive(t, return_inverse=True, return_counts=True)
    assert got[0].to(strata.int64).tolist() == x[starts].tolist()
    assert got[1].tolist() == (np.cumsum(np.diff(x, prepend=-1) != 0) - 1).tolist()
    assert got[2].tolist() == np.diff(np.append(starts, n)).tolist()


def test_unique_numbers_that_are_not_numbers_differ_and_gradients_reach_the_first():
    nan = math.nan
    values, counts = strata.unique(strata.tensor([nan, 2.0, nan, 1.0, 2.0]), return_counts=True)
    assert values[:2].tolist() == [1.0, 2.0] and values[2:].isnan().all() and counts.tolist() == [1, 2, 1, 1]
    for options in (dict(), dict(return_inverse=True)):
        x = strata.tensor([3.0, 1.0, 3.0, 2.0, 1.0]).requires_grad_()
        result = strata.unique(x, **options)
        (result[0] if options else result).backward(strata.tensor([10.0, 20.0, 30.0]))
        assert x.grad.tolist() == [30.0, 10.0, 0.0, 20.0, 0.0]
    x = strata.tensor([3.0, 3.0, 1.0, 3.0]).requires_grad_()
    strata.unique_consecutive(x).backward(strata.tensor([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [1.0, 0.0, 2.0, 3.0]


# --- reductions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["amin", "amax"])
def test_equal_extremes_share_the_gradient_also_if_they_are_nan(op):
    x = strata.tensor([[1.0, 1.0, 5.0], [math.nan, 2.0, math.nan], [4.0, 4.0, 4.0]]).requires_grad_()
    getattr(strata, op)(x, 1).backward(strata.tensor([6.0, 6.0, 6.0]))
    first = [3.0, 3.0, 0.0] if op == "amin" else [0.0, 0.0, 6.0]
    assert x.grad.tolist() == [first, [3.0, 0.0, 3.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize("shape, dim", [((5,), 0), ((3, 7), 1), ((3, 7), 0), ((1, 4), 0), ((2, 0), 1), ((0, 2), 0)])
def test_trapezoid(shape, dim):
    y = numbers(*shape).astype(np.float64)
    weights = np.ones(shape[dim])
    weights[[0, -1] if shape[dim] else []] = 0.5
    if shape[dim] == 1:
        weights[:] = 0
    expected = 0.25 * np.moveaxis(y, dim, -1) @ weights
    np.testing.assert_allclose(strata.trapezoid(strata.tensor(y), dx=0.25, dim=dim).numpy(), expected, atol=1e-12)
    ones = strata.ones(shape, dtype=strata.int64)
    assert strata.trapezoid(ones, dim=dim).tolist() == np.full(expected.shape, max(shape[dim] - 1, 0)).tolist()


# --- networks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k, s, p, d", [(2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 1, 2), (5, 3, 2, 1), (4, 4, 0, 3), (255, 1, 0, 1), (256, 1, 0, 1)])  # fmt: skip
def test_max_pool1d(k, s, p, d):
    length = 40 if k < 40 else 300
    for shape in ((3, 4, length), (4, length)):
        x = numbers(*shape)
        x[..., 5] = np.nan
        padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(p, p)], constant_values=-np.inf)
        windows = sliding_window_view(padded, d * (k - 1) + 1, -1)[..., ::s, ::d]
        t = strata.tensor(x).requires_grad_()
        y = strata.nn.functional.max_pool1d(t, k, s, p, d)
        assert np.array_equal(y.detach().numpy(), windows.max(-1), equal_nan=True)
        g = np.round(numbers(*y.shape, seed=3) * 8)
        y.backward(strata.tensor(g))
        both, index = strata.nn.functional.max_pool1d(t, k, s, p, d, return_indices=True)
        expected = np.zeros(shape, np.float32).reshape(-1, length)
        rows = index.numpy().reshape(len(expected), -1)
        for row, at, values in zip(expected, rows, g.reshape(rows.shape), strict=True):
            np.add.at(row, at, values)
        assert np.array_equal(t.grad.numpy().reshape(expected.shape), expected)


@pytest.mark.parametrize("hw", [1, 3, 16, 63, 64, 100])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_of_small_planes(hw, groups):
    x, w, b = (
        numbers(5, 6, hw).astype(np.float64),
        numbers(6, seed=1).astype(np.float64),
        numbers(6, seed=2).astype(np.float64),
    )
    if hw * 6 // groups == 1:
        x = np.concatenate([x, x + 1])
    rows = x.reshape(len(x), groups, -1)
    normed = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    expected = normed.reshape(x.shape) * w[:, None] + b[:, None]
    t, weight, bias = (strata.tensor(v).requires_grad_() for v in (x, w, b))
    y = strata.nn.functional.group_norm(t, groups, weight, bias)
    np.testing.assert_allclose(y.detach().numpy(), expected, atol=1e-10)
    y.backward(strata.ones_like(y))
    np.testing.assert_allclose(weight.grad.numpy(), normed.reshape(x.shape).sum((0, 2)), atol=1e-9)
    np.testing.assert_allclose(bias.grad.numpy(), np.full(6, len(x) * hw), atol=1e-9)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "rfftn"])
@pytest.mark.parametrize("s", [(3, 6), (9, 4), (5, 7), (12, 12)])
def test_transforms_of_a_part(name, s):
    x = numbers(2, 5, 7).astype(np.float64)
    if name == "irfft2":
        x = x + 1j * numbers(2, 5, 7, seed=1)
    got, expected = getattr(strata.fft, name)(strata.tensor(x), s), getattr(np.fft, name)(x, s, axes=(-2, -1))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("mode, numpy_mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
@pytest.mark.parametrize("shape, pad", [((2, 5, 6, 7), (1, 2, 0, 3)), ((3, 4, 5, 6, 20), (2, 1, 1, 1, 0, 2)), ((1, 2, 6, 7), (3, 2, 1, 1)), ((2, 6, 40, 40), (2, 3, 0, 0))])  # fmt: skip
def test_padding_of_many_small_planes(shape, pad, mode, numpy_mode):
    x = numbers(*shape)
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    source = np.pad(np.arange(x.size).reshape(shape), [(0, 0)] * (len(shape) - len(pairs)) + pairs, numpy_mode)
    t = strata.tensor(x).requires_grad_()
    y = strata.nn.functional.pad(t, pad, mode)
    assert np.array_equal(y.detach().numpy(), x.ravel()[source])
    g = np.round(numbers(*y.shape, seed=1) * 8)
    y.backward(strata.tensor(g))
    expected = np.zeros(x.size, np.float32)
    np.add.at(expected, source.ravel(), g.ravel())
    assert np.array_equal(t.grad.numpy().ravel(), expected)


# --- gradients that leaves keep ---------------------------------------------------------------------------------------


def test_leaves_do_not_share_gradients():
    a, b = strata.zeros(4, 1).requires_grad_(), strata.zeros(4, 1).requires_grad_()
    s = a.squeeze(1) + b.squeeze(1)
    (s * s + s).sum().backward()
    a.grad.mul_(5)
    assert a.grad.flatten().tolist() == [5.0] * 4 and b.grad.flatten().tolist() == [1.0] * 4


@pytest.mark.parametrize("view", ["squeeze", "ravel", "t", "narrow"])
def test_a_gradient_does_not_share_memory_with_the_callers(view):
    x = strata.zeros(4, 1).requires_grad_()
    g = None
    for n in range(1, 4):
        y = {"squeeze": lambda: x.squeeze(1), "ravel": x.ravel, "t": x.t, "narrow": lambda: x.narrow(0, 0, 4)}[view]()
        g = strata.ones_like(y).detach() if g is None else g
        y.backward(g)
        assert x.grad.flatten().tolist() == [float(n)] * 4 and g.flatten().tolist() == [1.0] * 4
        assert x.grad.data_ptr() != g.data_ptr() and x.grad._base is None


def test_a_gradient_through_views_is_no_view():
    x = strata.ones(1000, 1000).requires_grad_()
    (x.view(-1) * 2).sum().backward()
    assert x.grad.shape == x.shape and x.grad._base is None and (x.grad == 2).all()
    x.grad.zero_()
    assert (x.grad == 0).all()


# --- masks, searches, scans, products ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 1000, 70001])
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_masked_scatter(n, density, dtype):
    mask = np.random.default_rng(n).random(n) < density
    x, source = np.round(numbers(n)), np.round(numbers(mask.sum() + 3, seed=1))
    expected = x.copy()
    expected[mask] = source[: mask.sum()]
    kind = getattr(strata, dtype)
    got = strata.tensor(x).to(kind).masked_scatter(strata.tensor(mask), strata.tensor(source).to(kind))
    assert got.dtype == kind and strata.equal(got, strata.tensor(expected).to(kind))
    if dtype == "float32":
        a, b = strata.tensor(x).requires_grad_(), strata.tensor(source).requires_grad_()
        g = numbers(n, seed=2)
        a.masked_scatter(strata.tensor(mask), b).backward(strata.tensor(g))
        assert np.array_equal(a.grad.numpy(), np.where(mask, 0, g))
        assert np.array_equal(b.grad.numpy(), np.append(g[mask], np.zeros(3, np.float32)))


def test_masked_scatter_broadcasts_and_wants_enough_elements():
    mask = strata.tensor([True, False, True])
    x, source = strata.zeros(2, 3), strata.arange(1.0, 9.0)
    assert x.masked_scatter(mask, source).tolist() == [[1, 0, 2], [3, 0, 4]]
    assert strata.zeros(3).masked_scatter(strata.ones(2, 3, dtype=strata.bool), source).tolist() == [
        [1, 2, 3],
        [4, 5, 6],
    ]
    with pytest.raises(RuntimeError, match="at least the number of ones"):
        x.masked_scatter(mask, source[:3])
    assert x.masked_scatter_(mask, source) is x and x[1, 2].item() == 4


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_searches(n, right, dtype):
    random = np.random.default_rng(n)
    row = np.sort(random.integers(0, 20, n)).astype(dtype)
    values = random.integers(-1, 22, 5000).astype(dtype)
    expected = np.searchsorted(row, values, "right" if right else "left")
    for out_int32 in (False, True):
        got = strata.searchsorted(strata.tensor(row), strata.tensor(values), right=right, out_int32=out_int32)
        assert got.dtype == (strata.int32 if out_int32 else strata.int64) and np.array_equal(got.numpy(), expected)
        got = strata.bucketize(strata.tensor(values), strata.tensor(row), right=right, out_int32=out_int32)
        assert np.array_equal(got.numpy(), expected)
    order = random.permutation(n)
    shuffled = np.empty_like(row)
    shuffled[order] = row
    got = strata.searchsorted(strata.tensor(shuffled), strata.tensor(values), right=right, sorter=strata.tensor(order))
    assert np.array_equal(got.numpy(), expected)
    rows, many = np.stack([row, row + 3]), np.stack([values[:50], values[50:100]])
    got = strata.searchsorted(strata.tensor(rows), strata.tensor(many), right=right).numpy()
    assert np.array_equal(got[1], np.searchsorted(row + 3, many[1], "right" if right else "left"))


@pytest.mark.parametrize("op", ["cummax", "cummin"])
@pytest.mark.parametrize("shape", [(5, 7), (5, 8), (40, 65), (3, 20, 129), (1, 64), (300, 9)])
def test_cumulative_extremes_of_columns(op, shape):
    x = np.round(numbers(*shape) * 2)
    x[..., 3] = np.where(np.arange(shape[-2]) == shape[-2] // 2, np.nan, x[..., 3])
    values, indices = (r.numpy() for r in getattr(strata, op)(strata.tensor(x), -2))
    for at in np.ndindex(*shape[:-2], shape[-1]):
        line, best, place = x[(*at[:-1], slice(None), at[-1])], None, 0
        for i, v in enumerate(line):
            if best is None or np.isnan(v) or (not np.isnan(best) and (v >= best if op == "cummax" else v <= best)):
                best, place = v, i
            assert np.array_equal(values[(*at[:-1], i, at[-1])], best, equal_nan=True)
            assert indices[(*at[:-1], i, at[-1])] == place


@pytest.mark.parametrize("m, k", [(1, 1), (3, 5), (100, 7), (7, 100), (300, 513), (2000, 130)])
def test_transposed_matrix_times_vector(m, k):
    a, x = numbers(k, m), numbers(k, seed=1)
    expected = a.T.astype(np.float64) @ x
    for got in (
        both_thread_counts(lambda: strata.mv(strata.tensor(a).t(), strata.tensor(x)).numpy()),
        both_thread_counts(lambda: (strata.tensor(a).t() @ strata.tensor(x)[:, None]).numpy())[:, 0],
        both_thread_counts(lambda: (strata.tensor(a).double().t() @ strata.tensor(x).double()).numpy()),
    ):
        assert (np.abs(got - expected) <= 1e-6 * (np.abs(a.T).astype(np.float64) @ np.abs(x))).all()


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "int64"])
def test_repeated_elements(times, dtype):
    x = np.round(numbers(301, 7))
    t = strata.tensor(x).to(getattr(strata, dtype))
    exact = t.to(strata.float32).numpy()
    assert np.array_equal(t.repeat_interleave(times).to(strata.float32).numpy(), np.repeat(exact, times))
    assert np.array_equal(t.repeat_interleave(times, 1).to(strata.float32).numpy(), np.repeat(exact, times, 1))
    assert np.array_equal(t.t().repeat_interleave(times).to(strata.float32).numpy(), np.repeat(exact.T, times))


@pytest.mark.parametrize("m, k", [(1, 1), (1, 100), (5, 16), (3, 4099), (200, 33)])
def test_bfloat16_and_integer_dot_products(m, k):
    a, x = np.round(numbers(m, k) * 4), np.round(numbers(k, seed=1) * 4)
    exact = a.astype(np.float64) @ x
    narrow = strata.mv(strata.tensor(a).bfloat16(), strata.tensor(x).bfloat16())
    assert strata.equal(narrow, strata.tensor(exact).float().bfloat16())
    assert strata.dot(strata.tensor(a[0]).bfloat16(), strata.tensor(x).bfloat16()).item() == narrow[0].item()
    whole = strata.tensor(a).long(), strata.tensor(x).long()
    assert strata.mv(*whole).tolist() == exact.tolist() and strata.dot(whole[0][0], whole[1]).item() == exact[0]
    assert (
        strata.addmv(strata.ones(m, dtype=strata.int64), *whole, alpha=3, beta=2).tolist() == (2 + 3 * exact).tolist()
    )
    large = strata.tensor([2**62, 3, 5])
    assert strata.dot(large, large).item() == (2**124 + 34) % 2**64  # wraps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "batch, m, k, n",
    [(1, 121, 257, 130), (1, 7, 600, 1100), (1, 300, 66, 9), (3, 65, 70, 129), (9, 64, 65, 66), (1, 513, 1, 200)],
)
def test_packed_products_in_each_layout_with_any_number_of_threads(batch, m, k, n, dtype):
    a, b = numbers(batch, m, k).astype(dtype), numbers(batch, k, n, seed=1).astype(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)

    def layouts(x):
        yield strata.tensor(x)
        yield strata.tensor(np.ascontiguousarray(x.swapaxes(1, 2))).transpose(1, 2)
        yield strata.tensor(np.stack([x, x], -1))[..., 0]

    threads = strata.get_num_threads()
    try:
        for x, y in itertools.product(layouts(a), layouts(b)):
            results = []
            for count in (1, 2, 3):
                strata.set_num_threads(count)
                results.append(strata.matmul(x, y))
            assert all(strata.equal(r, results[0]) for r in results)
            bound = np.finfo(dtype).eps * 4 * math.sqrt(k) * np.abs(exact).max()
            assert np.abs(results[0].numpy() - exact).max() <= bound
            added = strata.baddbmm(results[0], x, y, beta=0.5, alpha=-2)
            assert np.abs(added.numpy() + 1.5 * exact).max() <= 3 * bound
    finally:
        strata.set_num_threads(threads)


@pytest.mark.parametrize("k, s, p", [(2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 3, 0), (8, 4, 2)])
@pytest.mark.parametrize("shape", [(2, 3, 20), (2, 3, 9, 300), (1, 2, 8, 9, 21)])
def test_means_of_sliding_windows(shape, k, s, p):
    dims = len(shape) - 2
    x = numbers(*shape).astype(np.float64)
    pool = getattr(strata.nn.functional, f"avg_pool{dims}d")
    around = [(0, 0)] * 2 + [(p, p)] * dims
    for include in (True, False):
        sums, counts = (np.pad(v, around) for v in (x, np.ones_like(x)))
        for axis in range(2, 2 + dims):
            sums, counts = (sliding_window_view(v, k, axis).sum(-1) for v in (sums, counts))
            sums, counts = (v[(slice(None),) * axis + (slice(None, None, s),)] for v in (sums, counts))
        expected = sums / (k**dims if include else counts)
        got = pool(strata.tensor(x), k, s, p, count_include_pad=include)
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(pool(strata.tensor(x).float(), k, s, p, False, include).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("mode, size", [("trilinear", (5, 2, 4)), ("nearest", (3, 2, 2)), ("trilinear", (1, 1, 1)), ("trilinear", (30, 4, 50))])  # fmt: skip
def test_strong_reductions_read_few_rows(mode, size):
    x = strata.tensor(numbers(2, 3, 40, 30, 20))
    got = strata.nn.functional.interpolate(x, size, mode=mode)
    wide = strata.nn.functional.interpolate(x.double().transpose(2, 3).contiguous().transpose(2, 3), size, mode=mode)
    np.testing.assert_allclose(got.numpy(), wide.numpy(), atol=1e-5)
    # one dimension after the other
    one = x.double()
    for d in range(3):
        target = list(one.shape[2:])
        target[d] = size[d]
        one = strata.nn.functional.interpolate(one, target, mode=mode)
    np.testing.assert_allclose(got.numpy(), one.numpy(), atol=1e-5)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "repeated", "sliced"])
def test_take_of_a_few_elements_of_views(layout):
    x = numbers(30, 40, 5)
    view, t = LAYOUTS[layout](x), view_of(strata.tensor(x), layout)
    at = np.array([[0, 5, view.size - 1], [-1, -view.size, 77]])
    assert np.array_equal(t.take(strata.tensor(at)).numpy(), np.take(view, at))
    leaf = t.detach().clone().requires_grad_()
    leaf.transpose(0, 1).take(strata.tensor([1, 1, 2])).sum().backward()
    assert leaf.grad.sum().item() == 3
    with pytest.raises(IndexError, match="out of range"):
        t.take(strata.tensor([view.size]))
    with pytest.raises(IndexError, match="out of range"):
        t.take(strata.tensor([-view.size - 1]))


def test_exponentials_at_the_limits():
    x = np.array(
        [-104.0, -103.9, -103.0, -100.0, -88.0, -87.4, 0.0, 88.7, 88.8, 89.0, np.inf, -np.inf, np.nan], np.float32
    )
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(np.float32)
    got = strata.tensor(np.tile(x, 3)).exp().numpy()[13:26]
    step = np.spacing(np.maximum(np.abs(expected), np.float32(1e-45)))
    finite = np.isfinite(expected)
    assert (np.abs(got[finite].astype(np.float64) - expected[finite]) <= step[finite]).all()
    assert np.array_equal(got[~finite], expected[~finite], equal_nan=True)


@pytest.mark.parametrize(
    "low, high", [(-3, 4), (-(2**40), -(2**40) + 9), (0, 2**32 - 1), (0, 2**32), (-(2**63), 2**63 - 1)]
)
@pytest.mark.parametrize("shape, dim", [((5000,), 0), ((30, 115), 1), ((115, 30), 0), ((3, 500), 1), ((200000,), 0)])
def test_orders_of_64_bit_integers(low, high, shape, dim):
    x = np.random.default_rng(0).integers(low, high, shape, endpoint=True)
    x.flat[:2] = low, high
    t = strata.tensor(x)
    for descending in (False, True):
        values, places = strata.sort(t, dim=dim, descending=descending, stable=True)
        # ~x instead of -x, which the smallest integer does not have
        order = np.argsort(~x if descending else x, dim, kind="stable")
        assert np.array_equal(places.numpy(), order)
        assert np.array_equal(values.numpy(), np.take_along_axis(x, order, dim))
    n = shape[dim]
    ascending = np.sort(x, dim)
    assert np.array_equal(strata.median(t, dim)[0].numpy(), ascending.take((n - 1) // 2, dim))
    assert np.array_equal(strata.kthvalue(t, 3, dim)[0].numpy(), ascending.take(2, dim))
    assert np.array_equal(strata.topk(t, 4, dim)[0].numpy(), np.flip(ascending, dim).take(range(4), dim))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "float32"])
def test_kernels_of_one_dtype_read_and_write_every_layout(layout, dtype):
    x = np.round(numbers(4, 6, 50) * 8)
    view, t = LAYOUTS[layout](x), view_of(strata.tensor(x).to(getattr(strata, dtype)), layout)
    got = strata.nn.functional.avg_pool1d(t, 2, 2)
    n = view.shape[-1] // 2 * 2
    assert got.dtype == t.dtype
    assert np.array_equal(got.float().numpy(), (view[..., 0:n:2] + view[..., 1:n:2]) / 2)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype, error", [("bfloat16", 2**-8), ("float16", 2**-11), ("float32", 1e-6)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 40, 60), (1, 2, 1)])
def test_batch_norm_of_narrow_floats(shape, dtype, error, training):
    if training and shape == (1, 2, 1):
        shape = (2, 2, 1)
    t = strata.tensor(numbers(*shape) * 3 + 1).to(getattr(strata, dtype))
    x, channels = t.double().numpy(), shape[1]
    weight, bias, mean, var = (numbers(channels, seed=k) for k in (1, 2, 3, 4))
    var = np.abs(var) + 0.5
    axes = (0, *range(2, len(shape)))
    spread = (slice(None), *(None,) * (len(shape) - 2))
    m, v = (x.mean(axes), x.var(axes)) if training else (mean, var)
    expected = (x - m[spread]) / np.sqrt(v + 1e-5)[spread] * weight[spread] + bias[spread]
    running, spreads, w, b = (strata.tensor(p) for p in (mean, var, weight, bias))
    got = strata.nn.functional.batch_norm(t, running, spreads, w, b, training)
    assert got.dtype == t.dtype
    assert (np.abs(got.double().numpy() - expected) <= error * (np.abs(expected) + 4)).all()


@pytest.mark.parametrize("p", [3, 4, 2.5, -3, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vector_norms_of_whole_orders(p, dtype):
    x = numbers(7, 300)
    got = strata.linalg.vector_norm(strata.tensor(x).to(getattr(strata, dtype)), p, 1)
    exact = (np.abs(x.astype(np.float64)) ** p).sum(1) ** (1 / p)
    np.testing.assert_allclose(got.numpy(), exact, rtol=1e-6 if dtype == "float32" else 1e-14)


# --- signs of 16-bit floats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16], ids=str)
def test_signs_of_every_16_bit_float(dtype):
    bits = np.arange(1 << 16, dtype=np.uint16)
    other = np.random.default_rng(3).permutation(bits)
    x, y = (strata.tensor(b).view(dtype) for b in (bits, other))
    layouts = {
        "contiguous": lambda t: t,
        "transposed": lambda t: t.view(256, 256).t(),
        "strided": lambda t: strata.stack([t, -t], 1)[:, 0],
        "short": lambda t: t[3:40],
    }
    for name, layout in layouts.items():
        a, b = layout(x), layout(y)
        plain_a, plain_b = (t.contiguous().view(strata.uint16).numpy() for t in (a, b))
        nan = (plain_a & 0x7FFF) > (0x7F80 if dtype is strata.bfloat16 else 0x7C00)
        for got, want in (
            (strata.abs(a), plain_a & 0x7FFF),
            (strata.neg(a), plain_a ^ 0x8000),
            (strata.copysign(a, b), (plain_a & 0x7FFF) | (plain_b & 0x8000)),
        ):
            found = got.contiguous().view(strata.uint16).numpy()
            assert np.array_equal(found[~nan], want[~nan]), name
            assert strata.isnan(got).numpy()[nan].all(), name


# --- folds of stacks and of middle dimensions --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [*LENGTHS, 139, 1025])
def test_folds_of_stacks_of_rows(n):
    x = np.round(numbers(7, 65, n) * 8) / 8
    for dtype in (strata.float32, strata.float64, strata.int64):
        t = strata.tensor(x).to(dtype)
        a = t.numpy().astype(np.float64)
        for dims in ((0, 2), (1,), (0,), (0, 1), (2,)):
            sums = both_thread_counts(lambda t=t, dims=dims: t.sum(list(dims)).numpy())
            np.testing.assert_allclose(sums, a.sum(dims), rtol=1e-6, atol=1e-4)
            highest = both_thread_counts(lambda t=t, dims=dims: t.amax(list(dims)).numpy())
            assert np.array_equal(highest, a.max(dims))
        odd = t[:, :3] % 2 + 1
        want = odd.numpy().astype(np.float64).prod(1)
        np.testing.assert_allclose(both_thread_counts(lambda odd=odd: odd.prod(1).numpy()), want, rtol=1e-6)
    x[3, 5, n - 1] = np.nan
    t = strata.tensor(x)
    assert np.isnan(t.amin(1).numpy()[3, n - 1]) and np.isnan(t.sum([0, 2]).numpy()).nonzero()[0].tolist() == [5]


# --- linear layers over sequences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 7, 40), (1, 9, 40), (3, 1, 40), (0, 4, 40), (4, 0, 40)], ids=str)
def test_linear_of_a_transposed_sequence(shape):
    x, w, bias = numbers(*shape), numbers(33, 40, seed=1), numbers(33, seed=2)
    for dtype, limit in ((strata.float32, 1e-4), (strata.float64, 1e-12), (strata.bfloat16, 0.2)):
        t = strata.tensor(x).to(dtype).transpose(0, 1)
        layer = [strata.tensor(v).to(dtype) for v in (w, bias)]
        want = np.swapaxes(t.transpose(0, 1).double().numpy(), 0, 1) @ layer[0].double().numpy().T
        for given in (layer[:1], layer):
            out = strata.nn.functional.linear(t, *given).double().numpy()
            added = layer[1].double().numpy() if len(given) == 2 else 0
            np.testing.assert_allclose(out, want + added, rtol=0, atol=limit)


@pytest.mark.parametrize("k", [1000, 2048, 4001])
def test_long_sums_of_transposed_factors(k):
    for m, n in ((64, 64), (20, 130), (300, 90)):
        a, b = numbers(k, m), numbers(k, n, seed=1)
        x, y = strata.tensor(a).t(), strata.tensor(b)
        got = both_thread_counts(lambda x=x, y=y: (x @ y).numpy())
        np.testing.assert_allclose(got, a.T.astype(np.float64) @ b, rtol=0, atol=1e-3)
