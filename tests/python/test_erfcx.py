"""special.erfcx against its integral, 2 / sqrt(pi) times that of exp(-t^2 - 2xt) over t > 0, by Gauss and Legendre's rule."""

import math

import numpy as np
import pytest
import strata

TOLERANCE = {strata.float64: 4e-15, strata.float32: 3e-7, strata.bfloat16: 2**-8, strata.float16: 2**-10}


def integral(x):
    a = np.abs(x)
    end = np.minimum(7, 40 / (np.sqrt(a * a + 40) + a))  # exp(-40) beyond
    nodes, weights = np.polynomial.legendre.leggauss(20)
    above = np.zeros_like(a)
    for part in range(6):
        t = end[:, None] * (part + (nodes + 1) / 2) / 6
        above += (np.exp(-t * (t + 2 * a[:, None])) * weights).sum(1) * end / 6 / math.sqrt(math.pi)
    power = np.exp(np.longdouble(np.minimum(x, 0)) ** 2)
    return np.where(x < 0, 2 * power - above, above).astype(np.float64)


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_values_are_those_of_the_integral(dtype, device):
    least = {strata.float64: -26, strata.float16: -3}.get(dtype, -9)
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [np.linspace(least, 30, 999), 10.0 ** rng.uniform(-6, 3, 300), -(10.0 ** rng.uniform(-6, 0, 99))]
    )
    x = strata.tensor(x).to(dtype)
    got = strata.special.erfcx(x.to(device)).cpu()
    assert got.dtype is dtype
    np.testing.assert_allclose(got.double().numpy(), integral(x.double().numpy()), rtol=TOLERANCE[dtype], atol=0)


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64], ids=str)
def test_special_points(dtype):
    x = strata.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, -30.0, 1e30], dtype=dtype)
    got = strata.special.erfcx(x).tolist()
    assert got[:4] == [1, 1, 0, math.inf] and math.isnan(got[4]) and got[5] == math.inf
    assert math.isclose(got[6], 1e-30 / math.sqrt(math.pi), rel_tol=1e-6)
    assert strata.special.erfcx(strata.tensor([1, 2])).dtype is strata.float32
    assert strata.special.erfcx(strata.ones(0, 3, dtype=dtype)).shape == (0, 3)


def test_gradients():
    x = strata.tensor([-2.0, -0.5, 0.0, 0.3, 5.0], dtype=strata.float64, requires_grad=True)
    assert strata.autograd.gradcheck(strata.special.erfcx, x)
    assert strata.autograd.gradgradcheck(strata.special.erfcx, x)
