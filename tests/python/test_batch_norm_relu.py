"""nn.functional.batch_norm_relu: relu(batch_norm(x) + other) and its gradients, beside the ops in turn in float64."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE

F = strata.nn.functional
ERRORS = {strata.float64: 1e-11, strata.float32: 2e-5, strata.bfloat16: 3e-2, strata.float16: 5e-3}
SHAPES = [(6, 8), (2, 3, 5), (4, 16, 6, 5), (3, 7, 4, 4), (2, 8, 3, 4, 5), (5, 64, 8, 8)]


def normal(rng, *shape, dtype, device):
    return strata.tensor(rng.standard_normal(shape)).to(dtype).to(device)


def close(got, want, dtype):
    want = want.detach().double().cpu().numpy()
    error = np.linalg.norm(got.detach().double().cpu().numpy() - want)
    assert tuple(got.shape) == want.shape and error <= ERRORS[dtype] * max(np.linalg.norm(want), 1e-2)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
def test_results_gradients_and_statistics(device, training, dtype):
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        for last, has_other in ((False, True), (True, True), (True, False)):
            if last and len(shape) != 4:
                continue
            c = shape[1]
            given = [normal(rng, *s, dtype=dtype, device=device) for s in (shape, shape)]
            stats = strata.float32 if dtype != strata.float64 else dtype
            given += [normal(rng, c, dtype=stats, device=device) for _ in range(2)]
            if last:
                given[0] = given[0].to(memory_format=strata.channels_last)
                given[1] = given[1] if c == 7 else given[1].to(memory_format=strata.channels_last)
            running = [
                normal(rng, c, dtype=stats, device=device),
                normal(rng, c, dtype=stats, device=device).abs() + 0.5,
            ]
            exact = [t.detach().cpu().double().requires_grad_() for t in given]
            exact_running = [t.cpu().double() for t in running]
            given = [t.requires_grad_() for t in given]
            x, other, weight, bias = given
            y = F.batch_norm_relu(x, *running, weight, bias, other if has_other else None, training, 0.3)
            normed = F.batch_norm(exact[0], *exact_running, exact[2], exact[3], training, 0.3)
            want = F.relu(normed + exact[1] if has_other else normed)
            assert y.dtype == dtype and y.stride() == x.stride()
            close(y, want, dtype)
            for got, reference in zip(running, exact_running, strict=True):
                close(got, reference, max(dtype, stats, key=ERRORS.get))
            # Gradients at zero differ where rounding decides: those results are left out.
            clear = (want.abs() > 0.05).double()
            weights = strata.tensor(rng.standard_normal(shape)) * clear
            own = [0, 1, 2, 3] if has_other else [0, 2, 3]
            inputs = [given[i] for i in own]
            grads = strata.autograd.grad(y, inputs, (weights * (y.detach().cpu().double() > 0.0)).to(dtype).to(device))
            wanted = strata.autograd.grad(want, [exact[i] for i in own], weights)
            for got, reference in zip(grads, wanted, strict=True):
                close(got, reference, dtype)


def test_gradients_of_gradients():
    rng = np.random.default_rng(2)
    x, other, weight, bias = (
        normal(rng, *s, dtype=strata.float64, device="cpu").requires_grad_() for s in ((4, 3, 2), (4, 3, 2), (3,), (3,))
    )

    def f(x, weight, bias, other):
        return F.batch_norm_relu(x, None, None, weight, bias, other, True)

    assert strata.autograd.gradcheck(f, (x, weight, bias, other))
    assert strata.autograd.gradgradcheck(f, (x, weight, bias, other))


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_special_values_and_empty_inputs(device):
    x = strata.tensor([[1.0, float("nan")], [3.0, 4.0]], device=device)
    y = F.batch_norm_relu(x, None, None, training=True)
    assert y.tolist()[1][0] > 0 and np.isnan(y.cpu().numpy()[:, 1]).all()
    empty = strata.ones(0, 3, 4, device=device)
    assert F.batch_norm_relu(empty, strata.zeros(3, device=device), strata.ones(3, device=device)).shape == (0, 3, 4)
    with pytest.raises(RuntimeError, match="shape and dtype of the input"):
        F.batch_norm_relu(x, None, None, other=x[:1], training=True)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm_relu(x[:1], None, None, training=True)


def test_one_kernel_on_devices():
    x = strata.ones(2, 8, 4, 4, device=DEVICE)
    running = strata.zeros(8, device=DEVICE), strata.ones(8, device=DEVICE)
    lines = strata.explain(lambda: F.batch_norm_relu(x, *running, other=x))
    assert [line[1] for line in lines] == ["channels"]
