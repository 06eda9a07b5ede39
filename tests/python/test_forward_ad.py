"""Forward-mode differentiation beside finite differences and the reverse mode."""

import functools

import pytest
import strata
from strata.autograd import forward_ad


def along(f, x, v, eps=1e-6):
    """The derivative of f at x along v, by central differences."""
    return (f(x + eps * v) - f(x - eps * v)) / (2 * eps)


def tangent_of(f, x, v):
    with forward_ad.dual_level():
        result = forward_ad.unpack_dual(f(forward_ad.make_dual(x, v)))
        assert strata.allclose(result.primal, f(x))
        return result.tangent


FUNCTIONS = [
    lambda x, m: x.sin() * x,
    lambda x, m: 3 - x,
    lambda x, m: 1 / x + x**3,
    lambda x, m: x @ m,
    lambda x, m: m @ x,
    lambda x, m: x.T[0],
    lambda x, m: strata.cat([x, x * 2]),
    lambda x, m: strata.stack([x, m], 1)[1].exp(),
    lambda x, m: strata.nn.functional.softmax(x, 1),
    lambda x, m: strata.nn.functional.linear(x, m, m[0]).relu(),
    lambda x, m: strata.linalg.inv(x),
    lambda x, m: strata.linalg.det(x),
    lambda x, m: x.sum(0).cumsum(0),
    lambda x, m: x.amax(1),
    lambda x, m: x.sort(descending=True).values,
    lambda x, m: x.clone().mul_(x).add_(1),
    lambda x, m: x.reshape(-1)[1:].square().mean(),
    lambda x, m: strata.nn.functional.layer_norm(x, (2,)),
    lambda x, m: strata.where(x > 1, x, x * x),
]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_tangents_are_derivatives(f, device):
    options = dict(dtype=strata.float64, device=device)
    m = strata.tensor([[2.0, 0.3], [0.1, 1.5]], **options)
    x = strata.tensor([[1.5, 0.25], [-0.5, 2.0]], **options)
    v = strata.tensor([[0.3, -1.0], [0.7, 0.2]], **options)
    of_x = functools.partial(f, m=m)
    assert strata.allclose(tangent_of(of_x, x, v), along(of_x, x, v), rtol=1e-6, atol=1e-7)


def test_what_detach_returns_is_a_constant():
    x, v = strata.tensor([2.0, 3.0]), strata.tensor([1.0, -1.0])
    assert tangent_of(lambda x: x.detach() * x, x, v).tolist() == [2.0, -3.0]


def test_two_duals_and_a_result_without_a_derivative():
    x, y = strata.tensor([1.0, 2.0]), strata.tensor([3.0, 4.0])
    with forward_ad.dual_level():
        a = forward_ad.make_dual(x, strata.ones(2))
        b = forward_ad.make_dual(y, strata.tensor([0.0, 1.0]))
        primal, tangent = forward_ad.unpack_dual(a * b)
        assert primal.tolist() == [3.0, 8.0] and tangent.tolist() == [3.0, 6.0]
        assert forward_ad.unpack_dual(a > b).tangent is None
        assert forward_ad.unpack_dual(strata.zeros_like(a)).tangent is None
        assert forward_ad.unpack_dual(x).tangent is None
        assert a.shape == (2,) and a.dtype == strata.float32 and a.tolist() == [1.0, 2.0]
        assert repr(a) == "tensor([1., 2.], tangent=tensor([1., 1.]))"
    assert forward_ad.unpack_dual(a).tangent is None
    assert type(forward_ad.unpack_dual(a).primal) is strata.Tensor


def test_in_place_functions_change_the_tangent():
    with forward_ad.dual_level():
        x = strata.tensor([1.0, 2.0])
        a = forward_ad.make_dual(x, strata.ones(2))
        b = a.mul_(a)
        assert b is a and a.tolist() == [1.0, 4.0] and forward_ad.unpack_dual(a).tangent.tolist() == [2.0, 4.0]


def test_a_module_and_the_reverse_mode_agree():
    strata.manual_seed(0)
    net = strata.nn.Sequential(strata.nn.Linear(3, 4), strata.nn.Tanh(), strata.nn.Linear(4, 2)).double()
    x, v = strata.randn(5, 3, dtype=strata.float64), strata.randn(5, 3, dtype=strata.float64)
    _, expected = strata.func.jvp(net, (x,), (v,))
    assert strata.allclose(tangent_of(net, x, v), expected)


def test_reverse_over_forward():
    x = strata.tensor([0.5, 1.5], dtype=strata.float64, requires_grad=True)
    with forward_ad.dual_level():
        y = (forward_ad.make_dual(x, strata.ones(2, dtype=strata.float64)) ** 3).sum()
        slope = forward_ad.unpack_dual(y).tangent  # sum of 3 x^2
    (curvature,) = strata.autograd.grad(slope, x)
    assert strata.allclose(curvature, 6 * x)


def test_errors():
    x = strata.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with pytest.raises(RuntimeError, match="no level is active"):
        forward_ad.exit_dual_level()
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match=r"shape \[2\], got strata.float32 of shape \[3\]"):
            forward_ad.make_dual(x, strata.ones(3))
        with pytest.raises(RuntimeError, match="got float"):
            forward_ad.make_dual(x, 1.0)
        with pytest.raises(ValueError, match="floating point or complex"):
            forward_ad.make_dual(strata.arange(2), strata.arange(2))
