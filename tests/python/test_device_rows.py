"""logsumexp of rows, rows added by index, and gathers that blocks divide into slabs, on the CPU and a device, compared with NumPy."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
RNG = np.random.default_rng(5)
INF, NAN = np.inf, np.nan
FLOATS = ["float32", "float64", "bfloat16", "float16"]


def made(a, dtype, device):
    return strata.from_numpy(np.ascontiguousarray(a)).to(getattr(strata, dtype)).to(device)


def there(a):
    return strata.from_numpy(np.ascontiguousarray(a)).to(DEVICE)


def here(t):
    return t.cpu().to(strata.float64).numpy()


def log_sum_exp(x, dim, keepdim=False):
    most = x.max(axis=dim, keepdims=True)
    total = np.log(np.exp(x - most).sum(axis=dim, keepdims=True)) + most
    return total if keepdim else np.squeeze(total, axis=dim)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape, dim",
    [
        ((7,), 0),
        ((3, 4), 1),
        ((3, 4), 0),
        ((5, 7, 9), (0, 2)),
        ((5, 7, 9), (1,)),
        ((33, 257), 1),
        ((4, 4097), 1),
        ((40000,), 0),
    ],
)
def test_logsumexp_of_any_dimensions(shape, dim, dtype, device):
    t = made(RNG.standard_normal(shape) * 30, dtype, device)
    x = here(t)
    rtol = {"float32": 2e-6, "float64": 1e-13, "bfloat16": 8e-3, "float16": 1e-3}[dtype]
    for keepdim in (False, True):
        np.testing.assert_allclose(here(t.logsumexp(dim, keepdim)), log_sum_exp(x, dim, keepdim), rtol=rtol, atol=rtol)
    if len(shape) > 1:  # rows that are not aligned, and not contiguous
        np.testing.assert_allclose(here(t[..., 1:].logsumexp(dim)), log_sum_exp(x[..., 1:], dim), rtol=rtol, atol=rtol)
        np.testing.assert_allclose(
            here(t.mT.logsumexp(dim)), log_sum_exp(np.swapaxes(x, -1, -2), dim), rtol=rtol, atol=rtol
        )


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("repeat", [1, 50])
def test_logsumexp_of_infinities(repeat, dtype, device):
    rows = [
        ([INF, 1, 2], INF),
        ([-INF, -INF, -INF], -INF),
        ([NAN, 1, 2], NAN),
        ([INF, NAN, 1], NAN),
        ([-INF, 3, INF], INF),
        ([-INF, NAN, -INF], NAN),
        ([-INF, 0.5, -INF], 0.5 + np.log(repeat)),
        ([INF, -INF, INF], INF),
    ]
    x = np.repeat(np.array([row for row, _ in rows]), repeat, axis=1)
    got = here(made(x, dtype, device).logsumexp(1))
    np.testing.assert_allclose(got, [value for _, value in rows], rtol=1e-2 if dtype == "bfloat16" else 1e-6)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype, atol", [("float32", 1e-6), ("float64", 1e-14), ("bfloat16", 2e-3)])
@pytest.mark.parametrize("dim", [0, 1, (0, 2)])
def test_gradient_of_logsumexp_is_the_softmax(dim, dtype, atol, device):
    t = made(RNG.standard_normal((4, 30, 5)) * 3, dtype, device).requires_grad_()
    t.logsumexp(dim).sum().backward()
    x = here(t.detach())
    np.testing.assert_allclose(here(t.grad), np.exp(x - log_sum_exp(x, dim, True)), atol=atol)
    row = made([[INF, 0.0, 1.0]], dtype, device).requires_grad_()
    row.logsumexp(1).sum().backward()
    np.testing.assert_array_equal(here(row.grad), [[NAN, 0, 0]])


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_logsumexp_of_nothing(device):
    np.testing.assert_array_equal(here(strata.empty(3, 0, device=device).logsumexp(1)), np.full(3, -INF))
    assert strata.empty(0, 3, device=device).logsumexp(1).shape == (0,)
    with pytest.raises(NotImplementedError, match="logsumexp: not implemented for float8_e4m3fn"):
        strata.ones(2, 3, device=device).to(strata.float8_e4m3fn).logsumexp(1)


@pytest.mark.parametrize("dtype", [*FLOATS, "int64"])
@pytest.mark.parametrize("n, rows, columns", [(65, 5, 3), (1000, 50, 7), (1000, 1, 2), (3001, 300, 64)])
def test_added_rows_are_sums_in_order(n, rows, columns, dtype):
    index = RNG.integers(0, rows, n)
    values = RNG.integers(-1, 2, (n, columns))  # sums are exact in every dtype
    want = np.zeros((rows, columns))
    np.add.at(want, index, values)
    at, t = there(index), made(values, dtype, DEVICE)
    zeros = strata.zeros(rows, columns, dtype=t.dtype, device=DEVICE)
    np.testing.assert_array_equal(here(zeros.index_add(0, at, t)), want)
    np.testing.assert_array_equal(here(zeros.t().contiguous().index_add(1, at, t.t())), want.T)


@pytest.mark.parametrize("shape, dim", [((3000, 3072), 0), ((2, 2100, 4096), 1), ((3000, 3000), 0)])
def test_gather_along_columns_of_a_table_beyond_the_cache(shape, dim):
    x = RNG.standard_normal(shape, dtype=np.float32)
    index = RNG.integers(0, shape[dim], (*shape[:dim], 9, *shape[dim + 1 :]))
    np.testing.assert_array_equal(here(there(x).gather(dim, there(index))), np.take_along_axis(x, index, dim))
