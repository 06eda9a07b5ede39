"""Gradients and Jacobians through vmap: per-sample gradients, jacrev, jacfwd, hessian, vjp, jvp, ensembles."""

import numpy as np
import pytest
import strata
import strata.nn as nn
import strata.nn.functional as F
from strata.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

x = strata.randn(4, 3)


def close(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


def f(v):
    return strata.stack([(v**2).sum(), v.prod(), v.sin().sum()])


def rows(function, v):
    """The Jacobian by one backward pass per row."""
    v = v.detach().requires_grad_()
    y = function(v)
    return strata.stack([strata.autograd.grad(q, v, retain_graph=True)[0] for q in y.reshape(-1)]).reshape(
        *y.shape, *v.shape
    )


def network(kind):
    if kind == "mlp":
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), x
    if kind == "norm":
        return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)), x
    if kind == "cnn":
        model = nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 2)
        )
        return model, strata.randn(4, 2, 6, 6)
    model = nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(12, 2))
    return model, strata.randint(0, 6, (4, 3))


@pytest.mark.parametrize("kind", ["mlp", "norm", "cnn", "embedding"])
def test_per_sample_gradients(kind):
    model, data = network(kind)
    parameters = {k: v.detach() for k, v in model.named_parameters()}
    target = strata.tensor([0, 1, 0, 1])

    def loss(p, sample, t):
        return F.cross_entropy(functional_call(model, p, (sample.unsqueeze(0),)), t.unsqueeze(0))

    got, values = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(parameters, data, target)
    chunked = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=3)(parameters, data, target)
    for i in range(4):
        model.zero_grad()
        one = F.cross_entropy(model(data[i : i + 1]), target[i : i + 1])
        one.backward()
        close(values[i], one)
        for name, p in model.named_parameters():
            close(got[name][i], p.grad)
            close(chunked[name][i], p.grad)


def test_gradients_of_gradients():
    close(vmap(grad(lambda t: (t**3).sum()))(x), 3 * x**2)
    close(vmap(grad(grad(lambda t: t**3)))(x[:, 0]), 6 * x[:, 0])
    close(grad(lambda a: vmap(lambda r: (r**2).sum())(a).sum())(x), 2 * x)
    close(grad(lambda a: vmap(grad(lambda r: (r**3).sum()))(a).sum())(x), 6 * x)
    w = nn.Linear(3, 2)
    vmap(w)(x).sum().backward()
    close(w.weight.grad, x.sum(0).expand(2, 3))
    nested = vmap(lambda a: vmap(grad(lambda b: (a * b**2).sum()))(x))(x)
    close(nested, 2 * x[:, None] * x[None])


def test_jacobians():
    want = strata.stack([rows(f, v) for v in x])
    for transform in (jacrev, jacfwd, lambda g: jacrev(g, chunk_size=2)):
        close(transform(f)(x[0]), want[0])
        close(vmap(transform(f))(x), want)
    first, second = jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x[0], x[1])
    close(first, strata.eye(3) * x[1].sum())
    close(second, x[0][:, None].expand(3, 3))
    for transform in (jacrev, jacfwd):
        tree = transform(lambda d: {"u": d["a"] * 2, "v": d["b"].sum()})({"a": x[0], "b": x[1]})
        close(tree["u"]["a"], 2 * strata.eye(3))
        close(tree["v"]["b"], strata.ones(3))
        assert float(tree["v"]["a"].abs().sum()) == 0
        matrix, aux = transform(lambda v: (f(v), v.sum()), has_aux=True)(x[0])
        close(matrix, want[0])
        close(aux, x[0].sum())
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    close(jacrev(model)(x[0]), rows(model, x[0]))


def test_a_jacobian_of_a_function_that_reads_values():
    close(jacrev(lambda v: v * 2 if v.sum().item() > -1e9 else v)(x[0]), 2 * strata.eye(3))


def test_a_jacobian_uses_the_random_numbers_of_one_call():
    strata.manual_seed(3)
    matrix, value = jacrev(lambda v: (F.dropout(v * strata.ones(30), 0.5),) * 2, has_aux=True)(strata.ones(30))
    close(matrix.diagonal(), value)
    assert 0 < int((value == 0).sum()) < 30


def test_hessians():
    def h(v):
        return (v**3).sum() + v.prod()

    want = vmap(hessian(h))(x)
    for i in range(4):
        other = strata.stack([x[i].prod() / x[i] / n for n in x[i]])
        exact = other - strata.diag(other.diagonal()) + strata.diag(6 * x[i])
        for transform in (hessian(h), jacrev(jacrev(h)), jacfwd(jacfwd(h)), jacrev(jacfwd(h))):
            close(transform(x[i]), exact)
        close(want[i], exact)


def test_vjp_and_jvp_inside_of_vmap():
    value, product = vjp(f, x[0])
    close(value, f(x[0]))
    close(vmap(product)(strata.eye(3))[0], rows(f, x[0]))
    close(vmap(lambda v, u: vjp(f, v)[1](u)[0])(x, strata.ones(4, 3)), strata.stack([rows(f, v).sum(0) for v in x]))
    close(vmap(lambda v, u: jvp(f, (v,), (u,))[1])(x, strata.ones(4, 3)), strata.stack([rows(f, v).sum(1) for v in x]))
    close(vmap(lambda u: jvp(f, (x[0],), (u,))[1])(strata.eye(3)), rows(f, x[0]).T)
    value, pushed = linearize(f, x[0])
    close(pushed(strata.ones(3)), rows(f, x[0]).sum(1))


def test_ensembles_share_one_call():
    models = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(5)]
    parameters, buffers = strata.func.stack_module_state(models)
    run = vmap(lambda p, b, v: functional_call(models[0], (p, b), (v,)), in_dims=(0, 0, None))
    close(run(parameters, buffers, x), strata.stack([m(x) for m in models]))
    own = vmap(lambda p, b, v: functional_call(models[0], (p, b), (v,)))(parameters, buffers, x[None].expand(5, 4, 3))
    close(own, strata.stack([m(x) for m in models]))


def test_batch_norms_without_statistics():
    model = strata.func.replace_all_batch_norm_modules_(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))
    images = strata.randn(3, 4, 1, 5, 5)
    close(vmap(model)(images), strata.stack([model(i) for i in images]))


def test_gradients_of_batched_vectors():
    v = x[0].clone().requires_grad_()
    (got,) = strata.autograd.grad(f(v), v, strata.eye(3), is_grads_batched=True)
    close(got, rows(f, x[0]))
    with pytest.raises(RuntimeError, match="grad_outputs"):
        strata.autograd.grad(f(v), v, is_grads_batched=True)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: grad(lambda v: v * 2)(x), RuntimeError, "without dimensions"),
        (lambda: grad(lambda v: v.sum(), argnums=2)(x), RuntimeError, "argnum=2"),
        (lambda: grad(lambda v: v.sum(), has_aux=True)(x), RuntimeError, "has_aux"),
        (lambda: vjp(f, x[0])[1](x[0], x[0]), RuntimeError, "expected 1 vectors"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
