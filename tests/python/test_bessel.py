"""Modified Bessel functions against their integrals, which the trapezoidal rule computes to the last digits."""

import math

import numpy as np
import pytest
import strata

ORDER = {"i0": 0, "i0e": 0, "i1": 1, "i1e": 1}
TOLERANCE = {strata.float64: 4e-15, strata.float32: 1.3e-6}


def integral(name, x):
    angle = (np.arange(4000) + 0.5) * (math.pi / 4000)
    scaled = (np.exp(np.outer(abs(x), np.cos(angle) - 1)) * np.cos(ORDER[name] * angle)).mean(1)
    return np.sign(x) ** ORDER[name] * scaled * (1 if name.endswith("e") else np.exp(abs(x)))


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", ORDER)
def test_values_are_those_of_the_integral(name, dtype, device):
    x = np.concatenate([np.linspace(-60, 60, 481), [-8, 8, 80, 87.5]]).astype(np.float32)
    got = getattr(strata.special, name)(strata.tensor(x).to(device, dtype)).cpu()
    assert got.dtype is dtype
    want = integral(name, x.astype(np.float64))
    np.testing.assert_allclose(got.double().numpy(), want, rtol=TOLERANCE[dtype], atol=1e-300)


@pytest.mark.parametrize("name", ORDER)
def test_special_points(name):
    function = getattr(strata.special, name)
    infinite = [0.0, 0.0] if name.endswith("e") else [math.inf, -math.inf if ORDER[name] else math.inf]
    x = strata.tensor([math.inf, -math.inf, 0.0, math.nan], dtype=strata.float64)
    got = function(x).tolist()
    assert got[:3] == [*infinite, 1.0 - ORDER[name]] and math.isnan(got[3])
    if ORDER[name]:
        assert math.copysign(1, function(strata.tensor(-0.0)).item()) == -1
    assert function(strata.tensor([3])).dtype is strata.float32


def test_i0_does_not_overflow_before_its_value():
    assert 1e37 < strata.i0(strata.tensor(89.0)).item() < math.inf  # exp(89) is infinite in float32
    assert strata.i0(strata.tensor(710.0, dtype=strata.float64)).item() < math.inf


def test_slopes_at_zero():
    for name, slope in {"i0": 0.0, "i0e": 0.0, "i1": 0.5, "i1e": 0.5}.items():
        x = strata.zeros(2, dtype=strata.float64, requires_grad=True)
        getattr(strata.special, name)(x).sum().backward()
        assert x.grad.tolist() == [slope] * 2


def test_names():
    x = strata.tensor([1.0, 2.0])
    want = strata.special.i0(x)
    assert strata.equal(strata.i0(x), want) and strata.equal(x.i0(), want) and strata.equal(x.clone().i0_(), want)
