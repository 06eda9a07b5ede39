"""Gradients of complex tensors: PyTorch's convention, real inputs, gradcheck. (test_records.py checks the gradient of each op.)"""

import numpy as np
import pytest
import strata
from strata.autograd import gradcheck, gradgradcheck


def leaf(*shape, seed=0, dtype=np.complex128):
    rng = np.random.default_rng(seed)
    values = np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))
    return strata.from_numpy(values if dtype is np.complex128 else values.real.copy()).requires_grad_()


def test_the_gradient_is_the_direction_of_steepest_ascent():
    """For a real function of z = x + iy the gradient is df/dx + i df/dy: 2 z for |z|^2."""
    z = leaf(5)
    (z * z.conj()).real.sum().backward()
    assert strata.allclose(z.grad, 2 * z.detach())
    w = leaf(5)
    w.abs().sum().backward()
    assert strata.allclose(w.grad, (w / w.abs()).detach())


def test_holomorphic_functions_have_the_conjugate_derivative():
    z = leaf(5)
    (z**3).backward(strata.ones(5, dtype=strata.complex128))
    assert strata.allclose(z.grad, (3 * z.detach() ** 2).conj())


def test_gradient_descent_reaches_a_complex_minimum():
    target, z = strata.tensor([1 + 2j, -3j]), strata.zeros(2, dtype=strata.complex64).requires_grad_()
    for _ in range(60):
        z.grad = None
        ((z - target).abs() ** 2).sum().backward()
        with strata.no_grad():
            z -= 0.2 * z.grad
    assert strata.allclose(z, target, atol=1e-4)


def test_real_inputs_have_real_gradients():
    x, z = leaf(4, dtype=np.float64), leaf(4, seed=1)
    out = x * z + strata.complex(x, x * 2)
    (out.real**2 + out.imag).sum().backward()
    assert x.grad.dtype is strata.float64 and z.grad.dtype is strata.complex128
    assert gradcheck(
        lambda x, z: x * z + strata.complex(x, x * 2), (x.detach().requires_grad_(), z.detach().requires_grad_())
    )
    assert gradcheck(lambda x: strata.polar(x.exp(), x), (leaf(4, dtype=np.float64),))
    assert gradcheck(lambda x: x.to(strata.complex128) * 1j, (leaf(4, dtype=np.float64),))


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z.real * z.imag,
        lambda z: strata.view_as_real(z) ** 2,
        lambda z: strata.view_as_complex(strata.view_as_real(z).contiguous()) * z,
        lambda z: (z @ z.mH).real,
        lambda z: strata.linalg.inv(z @ z.mH + 3 * strata.eye(3, dtype=z.dtype)),
        lambda z: strata.linalg.solve(z[:, :3] + 3 * strata.eye(3, dtype=z.dtype), z),
        lambda z: strata.einsum("ij,kj->ik", z, z.conj()),
        lambda z: z.prod(0) / z.sum(1).sum(),
        lambda z: z.cumprod(1),
        lambda z: z.norm(dim=1),
        lambda z: z.var(0),
        lambda z: strata.cat([z, z.flip(0)]).t()[1:],
        lambda z: strata.where(z.real > 0, z, z.conj()),
        lambda z: z[strata.tensor([0, 0, 2])],
        lambda z: strata.nn.functional.conv1d(z.view(1, 3, 4), z.view(2, 3, 2)),
        lambda z: strata.add(z, z, alpha=1 - 2j),
        lambda z: strata.addcmul(z, z, z, value=2j),
        lambda z: strata.nn.functional.linear(z, z, z[:, 0]),
        lambda z: z * 2j + 1j / z,
        lambda z: (2**z) + z**2.5 + z ** (1 - 1j),
    ],
)
def test_compositions(f):
    assert gradcheck(f, (leaf(3, 4),)) and gradgradcheck(f, (leaf(3, 4),))


def test_backward_starts_from_a_real_scalar():
    z = leaf()
    with pytest.raises(RuntimeError, match="only for real scalar outputs but got complex128"):
        (z * 2).backward()
    (z * 2).backward(strata.tensor(1 + 0j, dtype=strata.complex128))
    assert z.grad.item() == 2


def test_in_place_writes_are_recorded():
    z = leaf(4)
    w = z * 1
    w[1:3] *= 2j
    w += z.conj()
    out = w.abs().sum()
    out.backward()

    def same(z):
        w = z * 1
        w = strata.cat([w[:1], w[1:3] * 2j, w[3:]]) + z.conj()
        return w.abs().sum()

    y = z.detach().requires_grad_()
    same(y).backward()
    assert strata.allclose(z.grad, y.grad)


def test_a_write_to_the_real_view_of_a_recorded_tensor_is_refused():
    w = leaf(3) * 1
    with pytest.raises(NotImplementedError, match="cannot be recorded"):
        w.real.mul_(2)


def test_gradients_of_singular_values_and_eigenvalues():
    z = leaf(3, 3)
    for f in (strata.linalg.svdvals, strata.linalg.eigvalsh, lambda z: strata.linalg.matrix_norm(z, "nuc")):
        assert f(z).dtype is strata.float64
    assert gradcheck(strata.linalg.svdvals, (z,))
    assert gradcheck(lambda z: strata.linalg.eigvalsh(z + z.mH), (z,))
    assert gradcheck(lambda z: strata.linalg.matrix_norm(z, "nuc"), (z,))


def test_gradcheck_finds_a_missing_conjugate():
    class Square(strata.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * 2 * z

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(Square.apply, (leaf(3),))
