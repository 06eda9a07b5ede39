"""Reductions on a device at sizes where results are split into parts, of bytes in whole pieces and of 8-byte elements, compared with
NumPy."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
RNG = np.random.default_rng(3)
LENGTHS = [1, 7, 15, 16, 17, 255, 4096, 4099, 16384, 70001]


def there(a):
    return strata.from_numpy(np.ascontiguousarray(a)).to(DEVICE)


def here(t):
    return t.cpu().numpy()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8"])
@pytest.mark.parametrize("n", LENGTHS)
def test_folds_of_bytes(n, dtype):
    x = RNG.integers(0, 2 if dtype == "bool" else 256, n).astype("uint8").astype(dtype)
    for rows in (x, np.stack([x, x[::-1], x, np.zeros_like(x)])):
        t = there(rows)
        for dim in (None, rows.ndim - 1):
            arguments = () if dim is None else (dim,)
            np.testing.assert_array_equal(here(t.any(*arguments)), rows.any(dim))
            np.testing.assert_array_equal(here(t.all(*arguments)), rows.all(dim))
            np.testing.assert_array_equal(here(t.sum(*arguments)), rows.sum(dim, dtype=np.int64))
            np.testing.assert_array_equal(here(t.count_nonzero(*arguments)), np.count_nonzero(rows, dim))
            if dtype != "bool":
                np.testing.assert_array_equal(here(t.amax(*arguments)), rows.max(dim))
                np.testing.assert_array_equal(here(t.amin(*arguments)), rows.min(dim))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_products_of_bytes_wrap_around_at_64_bits(dtype):
    x = RNG.integers(3, 120, 4096).astype(dtype) | np.array(1, dtype)
    assert here(there(x).prod()) == x.prod(dtype=np.int64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32"])
def test_counts_beyond_the_integers_of_float(dtype):
    x = strata.ones(1, dtype=getattr(strata, dtype), device=DEVICE).expand((1 << 24) + 3)
    assert int(x.count_nonzero()) == (1 << 24) + 3


@pytest.mark.parametrize("where", [0, 15, 16, 4000, 70000])
def test_one_byte_decides(where):
    x = np.zeros(70001, bool)
    x[where] = True
    assert here(there(x).any()) and not here(there(x).all())
    assert not here(there(~x).all()) and here(there(~x).any())


def test_bytes_that_are_not_aligned():
    x = RNG.integers(0, 2, 5000).astype(bool)
    t = there(x)
    for start in (1, 8, 15):
        assert here(t[start:].sum()) == x[start:].sum()
    rows = RNG.integers(0, 2, (6, 104)).astype(bool)  # rows of 8 bytes beyond whole pieces
    np.testing.assert_array_equal(here(there(rows).sum(1)), rows.sum(1))
    np.testing.assert_array_equal(here(there(rows)[:, ::2].any(1)), rows[:, ::2].any(1))
    blocks = RNG.integers(0, 2, (6, 5, 32)).astype(bool)
    np.testing.assert_array_equal(here(there(blocks)[:, 1:4].sum((1, 2))), blocks[:, 1:4].sum((1, 2)))


@pytest.mark.parametrize("n", [*LENGTHS, 1 << 18, (1 << 18) + 5])
def test_folds_of_eight_byte_elements(n):
    whole = RNG.integers(-(2**40), 2**40, n)
    assert here(there(whole).sum()) == whole.sum()
    assert here(there(whole).amax()) == whole.max()
    np.testing.assert_array_equal(here(there(np.stack([whole, -whole])).sum(1)), [whole.sum(), -whole.sum()])
    x = RNG.standard_normal(n)
    np.testing.assert_allclose(here(there(x).sum()), x.sum(), rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(here(there(x * x).sum()), (x * x).sum(), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 8, 9, 40000, 70001])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_extremes_of_infinities_are_the_first(n, dtype):
    for value in (-np.inf, np.inf):
        t = strata.full((n,), value, dtype=getattr(strata, dtype), device=DEVICE)
        assert int(t.argmax()) == 0 and int(t.argmin()) == 0
        two = t.reshape(1, n).expand(3, n).contiguous()
        assert two.argmax(1).tolist() == [0, 0, 0] and two.argmin(0).tolist() == [0] * n
    t[n // 2 :] = float("nan")
    assert int(t.argmax()) == n // 2 and int(t.argmin()) == n // 2


@pytest.mark.parametrize("extreme", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_extremes_of_the_limits_of_integers(extreme):
    x = np.full(10000, extreme)
    assert int(there(x).argmax()) == 0 and int(there(x).argmin()) == 0
    x[7777] = 5
    assert int(there(x).argmax()) == x.argmax() and int(there(x).argmin()) == x.argmin()
