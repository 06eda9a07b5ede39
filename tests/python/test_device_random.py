"""Random numbers on a device are those of the CPU: the same Philox stream, whichever device draws from it."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
FLOATS = [strata.float32, strata.float64, strata.float16, strata.bfloat16]


def both(draw):
    """The results of draw(device) on the CPU and on the device from the same seed, as float64 or int64 arrays."""
    out = []
    for device in ("cpu", DEVICE):
        strata.manual_seed(1234)
        t = draw(device)
        assert t.device.type == device
        follows = strata.rand(3)  # the stream has moved on by the same number of blocks
        t = t.cpu()
        wide = t.to(strata.float64 if t.is_floating_point() else strata.int64)
        out.append((wide.numpy(), follows.numpy()))
    np.testing.assert_array_equal(out[0][1], out[1][1])
    return out[0][0], out[1][0]


@pytest.mark.parametrize("n", [0, 1, 3, 5, 1000, 4097])
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_have_equal_bits(n, dtype):
    np.testing.assert_array_equal(*both(lambda d: strata.rand(n, dtype=dtype, device=d)))
    np.testing.assert_array_equal(*both(lambda d: strata.empty(n, dtype=dtype, device=d).uniform_(-3, 0.7)))


@pytest.mark.parametrize("n", [1, 2, 5, 40970])
def test_normal_numbers_of_float32_have_equal_bits(n):
    np.testing.assert_array_equal(*both(lambda d: strata.randn(n, device=d)))
    want, got = both(lambda d: strata.randn(n, dtype=strata.float64, device=d))
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("distribution", ["normal_", "log_normal_", "exponential_", "cauchy_"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_other_distributions_agree(distribution, dtype):
    want, got = both(lambda d: getattr(strata.empty(1000, dtype=dtype, device=d), distribution)())
    rtol = {strata.float32: 5e-7, strata.float64: 1e-12, strata.float16: 2e-3, strata.bfloat16: 2e-2}[dtype]
    np.testing.assert_allclose(got, want, rtol=rtol)


@pytest.mark.parametrize("dtype", [strata.int64, strata.int32, strata.uint8, strata.float32])
def test_integers_have_equal_bits(dtype):
    np.testing.assert_array_equal(*both(lambda d: strata.randint(0, 100, (999,), dtype=dtype, device=d)))
    np.testing.assert_array_equal(*both(lambda d: strata.empty(77, dtype=dtype, device=d).random_()))
    if dtype == strata.int64:
        for low, high in ((0, 1), (-5, 2**30 - 5), (0, 2**30 + 1), (-(2**62), 2**62), (7, 2**40)):
            np.testing.assert_array_equal(*both(lambda d, a=low, b=high: strata.randint(a, b, (999,), device=d)))
    np.testing.assert_array_equal(*both(lambda d: strata.empty(77, dtype=dtype, device=d).geometric_(0.2)))


@pytest.mark.parametrize("n", [1, 15, 16, 4096, 4097, 16385])
def test_draws_of_threads_with_several_pieces(n):
    """Whole and cut pieces, at the limits of the ranges and of the probabilities."""
    for low, high in ((0, 3), (0, 1000), (-5, 2**29 - 5), (0, 2**29 + 1)):
        np.testing.assert_array_equal(*both(lambda d, a=low, b=high: strata.randint(a, b, (n,), device=d)))
    for p in (0.0, 1e-9, 0.5, 1 - 1e-12, 1.0):
        np.testing.assert_array_equal(*both(lambda d, p=p: strata.empty(n, device=d).bernoulli_(p)))
        np.testing.assert_array_equal(*both(lambda d, p=p: strata.nn.functional.dropout(strata.ones(n, device=d), p)))
    for dtype in (strata.float32, strata.bfloat16):
        np.testing.assert_array_equal(*both(lambda d, t=dtype: strata.randn(n, dtype=t, device=d)))
    np.testing.assert_array_equal(*both(lambda d: strata.empty(n + 1, device=d)[1:].normal_(2, 0.5)))
    want, got = both(lambda d: strata.empty(n, device=d).exponential_(2.5))
    np.testing.assert_allclose(got, want, rtol=5e-7)


def test_a_million_normal_numbers_have_equal_bits():
    np.testing.assert_array_equal(*both(lambda d: strata.randn(1 << 20, device=d)))


def test_permutations_and_weighted_draws_are_equal():
    np.testing.assert_array_equal(*both(lambda d: strata.randperm(100, device=d)))
    weights = strata.arange(1, 21, dtype=strata.float32).reshape(2, 10)
    for replacement in (False, True):
        np.testing.assert_array_equal(*both(lambda d, r=replacement: strata.multinomial(weights.to(d), 7, r)))


def test_bernoulli_draws_are_equal_and_checked():
    p = strata.linspace(0, 1, 101)
    np.testing.assert_array_equal(*both(lambda d: strata.bernoulli(p.to(d))))
    for p in (0.0, 0.3, 1.0, 2.0**-53, 1 - 2.0**-53):
        np.testing.assert_array_equal(*both(lambda d, p=p: strata.zeros(50, device=d).bernoulli_(p)))
    for dtype in (strata.bfloat16, strata.float64, strata.int64, strata.bool):
        np.testing.assert_array_equal(*both(lambda d, t=dtype: strata.zeros(1003, dtype=t, device=d).bernoulli_(0.3)))
    with pytest.raises(RuntimeError, match=r"in \[0, 1\], but got p=1.5"):
        strata.bernoulli(strata.full((3,), 1.5, device=DEVICE))
    with pytest.raises(RuntimeError, match=r"in \[0, 1\], but got p=-1"):
        strata.zeros(3, device=DEVICE).bernoulli_(-1.0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 6, 1001])
def test_dropout_keeps_the_same_elements(dtype, n):
    x = strata.randn(n).to(dtype)
    np.testing.assert_array_equal(*both(lambda d: strata.nn.functional.dropout(x.to(d), 0.3)))
    np.testing.assert_array_equal(*both(lambda d: strata.nn.functional.dropout2d(strata.ones(2, 5, 3, 3, device=d))))


def test_dropout_passes_gradients_where_it_kept():
    x = strata.ones(100, device=DEVICE, requires_grad=True)
    y = strata.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), y.detach().cpu().numpy())


def test_strided_tensors_are_filled_in_order():
    np.testing.assert_array_equal(*both(lambda d: strata.zeros(6, 8, device=d)[::2, 1::3].uniform_()))


def test_a_generator_serves_every_device():
    g = strata.Generator()
    draws = []
    for device in ("cpu", DEVICE):
        g.manual_seed(5)
        draws.append(strata.rand(9, generator=g, device=device).cpu().numpy())
    np.testing.assert_array_equal(*draws)


def test_normal_numbers_are_box_and_mullers():
    strata.manual_seed(7)
    u = strata.rand(1000).numpy().astype(np.float64).reshape(-1, 2)
    strata.manual_seed(7)
    got = strata.randn(1000).numpy().reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, 0])), 2 * np.pi * u[:, 1]
    want = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)
