"""Activations, log-sums and ranges of complex numbers against loops over Python's complex numbers, on the CPU and on vgpu."""

import cmath
import math

import numpy as np
import pytest
import strata
import strata.nn.functional as F

DTYPES = {strata.complex64: (np.complex64, 2e-6), strata.complex128: (np.complex128, 1e-12)}
both = pytest.mark.parametrize("dtype", DTYPES, ids=str)
devices = pytest.mark.parametrize("device", ["cpu", "vgpu"])


def random(*shape, scale=3.0, seed=0):
    rng = np.random.default_rng(seed)
    return scale * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


def sinc(z):
    return cmath.sin(math.pi * z) / (math.pi * z) if z else 1


FORMULAS = {
    F.silu: lambda z: z / (1 + cmath.exp(-z)),
    F.softsign: lambda z: z / (1 + abs(z)),
    F.tanhshrink: lambda z: z - cmath.tanh(z),
    strata.sinc: sinc,
}


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f.__name__)
@both
@devices
def test_functions_agree_with_their_formulas(function, dtype, device):
    kind, eps = DTYPES[dtype]
    a = np.append(random(40), 0).astype(kind)
    got = function(strata.from_numpy(a).to(device)).cpu()
    want = np.array([FORMULAS[function](complex(z)) for z in a])
    assert got.dtype is dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=eps, atol=eps * abs(want).max())


def test_sigmoid_and_silu_do_not_overflow():
    z = strata.tensor([-1000 + 1j, 1000 + 1j, -1000 - 2j])
    assert strata.allclose(strata.sigmoid(z), strata.tensor([0j, 1, 0]))
    assert strata.allclose(F.silu(z), strata.tensor([0j, 1000 + 1j, 0]))


def log_add(a, b):
    """As PyTorch adds: the angle is that of the number with the larger real part, and at most pi/2 more."""
    more, less = (a, b) if a.real >= b.real else (b, a)
    return more + cmath.log(1 + cmath.exp(less - more))


@both
@devices
def test_logaddexp(dtype, device):
    kind, eps = DTYPES[dtype]
    a, b = random(5, 7).astype(kind), random(7, seed=1).astype(kind)
    got = strata.logaddexp(strata.from_numpy(a).to(device), strata.from_numpy(b).to(device)).cpu().numpy()
    want = [[log_add(complex(x), complex(y)) for x, y in zip(row, b, strict=True)] for row in a]
    np.testing.assert_allclose(got, np.array(want), rtol=eps, atol=10 * eps)
    mixed = strata.logaddexp(strata.from_numpy(a), strata.from_numpy(b.real.copy())).numpy()
    want = [[log_add(complex(x), complex(y)) for x, y in zip(row, b.real, strict=True)] for row in a]
    np.testing.assert_allclose(mixed, np.array(want), rtol=eps, atol=10 * eps)


def test_logaddexp_of_infinities():
    low, high = complex(-math.inf, 0), complex(math.inf, 0)
    x = strata.tensor([low, low, high, 1j], dtype=strata.complex128)
    y = strata.tensor([low, 2 + 3j, 1j, complex(math.nan, 0)], dtype=strata.complex128)
    got = strata.logaddexp(x, y).tolist()
    assert got[0].real == -math.inf and got[1] == 2 + 3j and got[2].real == math.inf and cmath.isnan(got[3])


@pytest.mark.parametrize("dim", [0, 1])
@both
@devices
def test_logcumsumexp_continues_its_angles(dim, dtype, device):
    kind, eps = DTYPES[dtype]
    a = random(9, 21, scale=5.0).astype(kind)
    want = a.astype(np.complex128).copy()
    along = np.moveaxis(want, dim, 0)  # a view
    for i in range(1, len(along)):
        along[i] = [log_add(complex(x), complex(y)) for x, y in zip(along[i], along[i - 1], strict=True)]
    got = strata.logcumsumexp(strata.from_numpy(a).to(device), dim).cpu().numpy()
    assert abs(want.imag).max() > math.pi
    np.testing.assert_allclose(got, want, rtol=50 * eps, atol=50 * eps)


def test_logcumsumexp_from_nothing():
    low = complex(-math.inf, 0)
    got = strata.logcumsumexp(strata.tensor([low, low, 1 + 2j, low, 2 + 8j]), 0).tolist()
    assert got[1].real == -math.inf and got[2:4] == [1 + 2j] * 2
    assert cmath.isclose(got[4], log_add(2 + 8j, 1 + 2j), rel_tol=1e-6)
    assert strata.logcumsumexp(strata.zeros(0, 3, dtype=strata.complex64), 0).shape == (0, 3)
    assert strata.logcumsumexp(strata.tensor(1j), 0).item() == 1j


@devices
def test_softmax_with_a_real_dtype_takes_the_real_parts(device):
    z = strata.from_numpy(random(4, 5)).to(device).requires_grad_()
    for function in (F.softmax, F.log_softmax, F.softmin, strata.softmax, strata.log_softmax):
        got = function(z, 1, dtype=strata.float32)
        assert got.dtype is strata.float32 and strata.equal(got, function(z.real, 1, dtype=strata.float32))
        (grad,) = strata.autograd.grad(got[:, 0].sum(), z)
        assert grad.is_complex() and (grad.imag == 0).all() and (grad.real != 0).any()


def test_softmax_has_no_complex_values():
    z = strata.ones(2, dtype=strata.complex64)
    for call in (
        lambda: strata.softmax(z, 0),
        lambda: F.softmin(z, 0),
        lambda: F.log_softmax(z, 0, dtype=strata.complex64),
        lambda: F.softmax(z.real, 0, dtype=strata.complex64),
    ):
        with pytest.raises(NotImplementedError, match="complex64"):
            call()


@devices
def test_ranges_of_complex_numbers(device):
    got = strata.linspace(1 + 2j, -3, 7, device=device)
    assert got.dtype is strata.complex64 and got.device.type == device
    np.testing.assert_allclose(got.cpu().numpy(), np.linspace(1 + 2j, -3, 7), rtol=1e-6, atol=1e-6)
    assert strata.linspace(0, 1, 3, dtype=strata.complex128, device=device).tolist() == [0, 0.5, 1]
    assert strata.linspace(2j, 5, 1, device=device).tolist() == [2j]
    for base in (10.0, 2.0, -2.0):
        got = strata.logspace(0.5, 1 + 1j, 6, base=base, dtype=strata.complex128, device=device).cpu().numpy()
        np.testing.assert_allclose(got, complex(base) ** np.linspace(0.5, 1 + 1j, 6), rtol=1e-12)
    out = strata.zeros(6, dtype=strata.complex64, device=device)[::2]
    strata.linspace(0, 2j, 3, out=out)
    assert out.tolist() == [0, 1j, 2j]


def test_ranges_with_complex_ends_need_a_complex_dtype():
    for function in (strata.linspace, strata.logspace):
        with pytest.raises(RuntimeError, match="cannot be converted to type float32"):
            function(0, 1j, 3, dtype=strata.float32)
