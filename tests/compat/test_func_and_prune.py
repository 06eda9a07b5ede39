"""torch.func and torch.nn.utils.prune: derivatives of functions against closed forms, masks against NumPy."""

import numpy as np
import pytest
import strata
from strata import func, nn
from strata.nn.utils import prune

F64 = strata.float64


def test_gradients_of_functions():
    x, y = strata.randn(3, dtype=F64), strata.randn(3, dtype=F64)
    np.testing.assert_allclose(func.grad(lambda a: a.sin().sum())(x).numpy(), np.cos(x.numpy()))
    gx, gy = func.grad(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(gx.numpy(), 2 * x.numpy() * y.numpy())
    np.testing.assert_allclose(gy.numpy(), x.numpy() ** 2)
    slope, (value, aux) = func.grad_and_value(lambda a: (a.sum(), "aux"), has_aux=True)(x)
    assert slope.tolist() == [1, 1, 1] and aux == "aux" and value.item() == pytest.approx(x.sum().item())
    assert not slope.requires_grad and not x.requires_grad
    tree = func.grad(lambda p: (p["a"] * 2).sum() + p["b"][0].sum())({"a": x, "b": [y]})
    assert tree["a"].tolist() == [2, 2, 2] and tree["b"][0].tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="without dimensions"):
        func.grad(lambda a: a)(x)


def test_derivatives_can_be_nested():
    x = strata.tensor(0.7, dtype=F64)
    third = func.grad(func.grad(func.grad(strata.sin)))(x)
    assert third.item() == pytest.approx(-np.cos(0.7)) and not third.requires_grad
    w = strata.tensor(2.0, dtype=F64, requires_grad=True)
    func.grad(lambda a, b: a * a * b)(x, w).backward()  # outside of the transform
    assert w.grad.item() == pytest.approx(1.4)


def test_jacobians_and_products():
    a, x, v, u = (strata.randn(*s, dtype=F64) for s in ((4, 3), (3,), (3,), (4,)))
    slope = a.numpy() * np.cos(x.numpy())
    f = lambda t: a @ t.sin()  # noqa: E731
    for jacobian in (func.jacrev, func.jacfwd):
        np.testing.assert_allclose(jacobian(f)(x).numpy(), slope)
    value, pull = func.vjp(f, x)
    np.testing.assert_allclose(value.numpy(), f(x).numpy())
    np.testing.assert_allclose(pull(u)[0].numpy(), u.numpy() @ slope)
    np.testing.assert_allclose(func.jvp(f, (x,), (v,))[1].numpy(), slope @ v.numpy())
    np.testing.assert_allclose(func.hessian(lambda t: (t**3).sum())(x).numpy(), np.diag(6 * x.numpy()), atol=1e-12)
    per_sample = func.vmap(func.grad(lambda t: (t * t).sum()))(a)
    np.testing.assert_allclose(per_sample.numpy(), 2 * a.numpy())


def test_per_sample_gradients_of_a_module():
    model = nn.Linear(3, 1).double()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x = strata.randn(4, 3, dtype=F64)

    def loss(p, sample):
        return func.functional_call(model, p, (sample,)).sum() ** 2

    got = func.vmap(func.grad(loss), in_dims=(None, 0))(parameters, x)
    np.testing.assert_allclose(got["weight"][:, 0].numpy(), (2 * model(x) * x).detach().numpy())
    stacked, buffers = func.stack_module_state([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert stacked["weight"].shape == (2, 2, 2) and buffers == {}


# --- pruning -----------------------------------------------------------------------------------------------------------------


def test_the_smallest_elements_are_pruned_and_stay_so():
    layer = nn.Linear(4, 3)
    weight = layer.weight.detach().clone().numpy()
    assert prune.l1_unstructured(layer, "weight", amount=5) is layer
    order = np.argsort(np.abs(weight).ravel())
    want = weight.ravel().copy()
    want[order[:5]] = 0
    np.testing.assert_array_equal(layer.weight.detach().numpy().ravel(), want)
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight_orig"] and prune.is_pruned(layer)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    layer(strata.ones(2, 4)).sum().backward()
    assert layer.weight_orig.grad.flatten()[strata.tensor(order[:5].copy())].eq(0).all()
    with strata.no_grad():
        layer.weight_orig.add_(1)
    layer(strata.ones(1, 4))  # recomputes the weight
    assert (layer.weight == 0).sum() == 5
    prune.l1_unstructured(layer, "weight", amount=0.5)  # of the 7 that are left
    assert (layer.weight == 0).sum() == 5 + 4
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer) and type(layer.weight) is nn.Parameter and (layer.weight == 0).sum() == 9
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(layer, "weight")


def test_structured_and_global_pruning():
    layer = nn.Conv2d(2, 4, 3)
    norms = layer.weight.detach().flatten(1).norm(2, 1)
    prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)
    zero = layer.weight.detach().flatten(1).eq(0).all(1)
    assert zero.sum() == 2 and set(norms.argsort()[:2].tolist()) == set(zero.nonzero().flatten().tolist())
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    with strata.no_grad():
        a.weight.fill_(0.1)
        b.weight.fill_(5)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=9)
    assert a.weight.eq(0).all() and b.weight.ne(0).all()
    prune.random_unstructured(b, "weight", amount=4)
    assert (b.weight == 0).sum() == 4
    prune.random_structured(nn.Linear(3, 3), "weight", amount=1, dim=1)
    prune.identity(nn.Linear(2, 2), "bias")
    for amount in (-1, 1.5, 100, "x"):
        with pytest.raises(ValueError, match="prune"):
            prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=amount)


def test_gradient_of_samples_matches_numpy():
    x = np.random.default_rng(0).normal(size=(4, 5))
    for got, want in zip(strata.gradient(strata.tensor(x)), np.gradient(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want)
    places = np.array([0.0, 1.0, 4.0, 5.0, 7.0])
    (got,) = strata.gradient(strata.tensor(x), spacing=(strata.tensor(places),), dim=1)
    np.testing.assert_allclose(got.numpy(), np.gradient(x, places, axis=1))
