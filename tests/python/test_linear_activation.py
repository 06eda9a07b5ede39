"""nn.functional.linear_activation and _addmm_activation: each kernel beside float64, with gradients of both orders."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from strata import _C

F = strata.nn.functional
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}
ERRORS = {strata.float64: 1e-12, strata.float32: 1e-5, strata.bfloat16: 2e-2, strata.float16: 4e-3}


def normal(rng, *shape, dtype, device):
    return strata.tensor(rng.standard_normal(shape)).to(dtype).to(device)


def close(got, want, dtype):
    want = want.detach().double().cpu().numpy()
    error = np.linalg.norm(got.detach().double().cpu().numpy() - want)
    assert got.shape == want.shape and error <= ERRORS[dtype] * max(np.linalg.norm(want), 1e-3)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
def test_results_and_gradients_beside_float64(device, activation, dtype):
    rng = np.random.default_rng(len(activation))
    for shape, outputs in [((2, 33, 64), 48), ((7,), 5), ((0, 16), 8), ((130, 72), 136), ((3, 1), 1), ((4, 9), 7)]:
        given = [normal(rng, *s, dtype=dtype, device=device) for s in (shape, (outputs, shape[-1]), (outputs,))]
        exact = [x.detach().cpu().double().requires_grad_() for x in given]
        given = [x.requires_grad_() for x in given]
        for bias in (True, False):
            count = 3 if bias else 2
            y = F.linear_activation(*given[:count], activation=activation)
            want = ACTIVATIONS[activation](F.linear(*exact[:count]))
            assert y.dtype == dtype
            close(y, want, dtype)
            with strata.no_grad():
                close(F.linear_activation(*given[:count], activation=activation), want, dtype)
            weights = normal(rng, *y.shape, dtype=dtype, device=device)
            grads = strata.autograd.grad(y, given[:count], weights)
            wanted = strata.autograd.grad(want, exact[:count], weights.cpu().double())
            for got, reference in zip(grads, wanted, strict=True):
                close(got, reference, dtype)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_gradients(activation):
    rng = np.random.default_rng(3)
    given = [normal(rng, *s, dtype=strata.float64, device="cpu").requires_grad_() for s in ((3, 4), (5, 4), (5,))]
    assert strata.autograd.gradcheck(lambda *x: F.linear_activation(*x, activation), given)
    assert strata.autograd.gradgradcheck(lambda *x: F.linear_activation(*x, activation), given)


def test_one_kernel_computes_both_on_devices():
    rng = np.random.default_rng(4)
    x, w, b = (normal(rng, *s, dtype=strata.bfloat16, device=DEVICE) for s in ((64, 64), (72, 64), (72,)))
    assert strata.explain(lambda: F.linear_activation(x, w, b, "silu"))[-1][1] != "compiled"  # unless it was timed
    _C._prefer_kernel("compiled")
    try:
        assert strata.explain(lambda: F.linear_activation(x, w, b, "silu"))[-1][1] == "compiled"
        check_one_kernel(rng, x, w, b)
    finally:
        _C._prefer_kernel(None)


def check_one_kernel(rng, x, w, b):
    strided = normal(rng, 64, 3, 2, 64, dtype=strata.bfloat16, device=DEVICE)[:, ::2]  # rows at two distances
    lines = strata.explain(lambda: F.linear_activation(strided, w, b, "silu"))
    assert any(line[1] == "in_turn" for line in lines)
    close(
        F.linear_activation(strided, w, b, "silu"), F.silu(F.linear(strided.double(), w.double(), b.double())), x.dtype
    )
    for views in (x.t().contiguous().t(), x[:, 1:], x[::2]):
        given = views, w[:, : views.shape[1]], b
        want = F.gelu(F.linear(*(t.double() for t in given)))
        close(F.linear_activation(*given, "gelu"), want, x.dtype)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_biases_of_one_element(device):
    x = strata.ones(3, 4, dtype=strata.bfloat16, device=device)
    for outputs, bias in ((1, 2.0), (1, [2.0])):
        w = strata.ones(outputs, 4, dtype=x.dtype, device=device)
        given = strata.tensor(bias, dtype=x.dtype, device=device)
        assert F.linear_activation(x, w, given).tolist() == [[6.0] * outputs] * 3


def test_tf32():
    before = strata.get_float32_matmul_precision()
    strata.set_float32_matmul_precision("high")
    try:
        rng = np.random.default_rng(5)
        x, w = (normal(rng, *s, dtype=strata.float32, device=DEVICE) for s in ((65, 100), (70, 100)))
        want = F.relu(F.linear(x.double(), w.double())).cpu().numpy()
        error = np.linalg.norm(F.linear_activation(x, w).double().cpu().numpy() - want) / np.linalg.norm(want)
        assert error < 1e-3
    finally:
        strata.set_float32_matmul_precision(before)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_addmm_activation(device):
    rng = np.random.default_rng(6)
    a, b = (normal(rng, *s, dtype=strata.float32, device=device) for s in ((3, 4), (4, 5)))
    for shape, settings in [
        ((5,), {}),
        ((3, 5), {}),
        ((1,), {}),
        ((5,), {"beta": 2, "alpha": 0.5}),
        ((3, 1), {"beta": 0}),
    ]:
        c = normal(rng, *shape, dtype=strata.float32, device=device)
        product = strata.addmm(c, a, b, **settings)
        close(strata._addmm_activation(c, a, b, **settings), F.relu(product), strata.float32)
        kind = "none" if device == "cpu" else "tanh"
        got = strata._addmm_activation(c, a, b, use_gelu=True, **settings)
        close(got, F.gelu(product, approximate=kind), strata.float32)
