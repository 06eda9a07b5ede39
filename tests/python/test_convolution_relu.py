"""nn.functional.convolution_relu and PyTorch's names for it: each kernel beside the ops in turn in float64, with gradients."""

import os

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_HOPPER = getattr(strata, DEVICE).get_device_capability()[0] == 9
ERRORS = {strata.float64: 1e-11, strata.float32: 2e-5, strata.bfloat16: 2e-2, strata.float16: 3e-3}
# Shapes of input and weight, and what else is given.
CASES = [
    ((2, 8, 9, 7), (16, 8, 3, 3), {"padding": 1}),
    ((2, 16, 6, 5), (24, 16, 1, 1), {}),
    ((1, 4, 11), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 3, 8, 9), (5, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    ((1, 4, 4, 5, 6), (3, 4, 2, 2, 2), {"padding": 1}),
    ((3, 64, 8, 8), (72, 64, 1, 1), {}),
]


def normal(rng, *shape, dtype, device):
    return strata.tensor(rng.standard_normal(shape)).to(dtype).to(device)


def close(got, want, dtype):
    want = want.detach().double().cpu().numpy()
    error = np.linalg.norm(got.detach().double().cpu().numpy() - want)
    assert tuple(got.shape) == want.shape and error <= ERRORS[dtype] * max(np.linalg.norm(want), 1e-2)


def convolved(x, weight, bias, **settings):
    return {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()](x, weight, bias, **settings)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
def test_results_and_gradients(device, dtype):
    rng = np.random.default_rng(1)
    for (shape, weight_shape, settings), last in [(c, last) for c in CASES for last in (False, True)]:
        if last and len(shape) != 4:
            continue
        x = normal(rng, *shape, dtype=dtype, device=device)
        weight = normal(rng, *weight_shape, dtype=dtype, device=device) * 0.2
        bias = normal(rng, weight_shape[0], dtype=dtype, device=device)
        if last:
            x = x.to(memory_format=strata.channels_last)
        out_shape = convolved(x, weight, bias, **settings).shape
        other = normal(rng, *out_shape, dtype=dtype, device=device)
        other = other.to(memory_format=strata.channels_last) if last else other
        for has_bias, has_other in ((True, True), (False, True), (True, False)):
            given = [x, weight, *([bias] if has_bias else []), *([other] if has_other else [])]
            given = [t.detach().requires_grad_() for t in given]
            exact = [t.detach().cpu().double().requires_grad_() for t in given]

            def call(f, tensors, has_bias=has_bias, has_other=has_other, settings=settings):
                b = tensors[2] if has_bias else None
                return f(tensors[0], tensors[1], b, tensors[-1] if has_other else None, **settings)

            y = call(F.convolution_relu, given)
            sums = call(lambda x, w, b, o, **s: convolved(x, w, b, **s) + (0 if o is None else o), exact)
            want = F.relu(sums)
            assert y.dtype == dtype
            close(y, want, dtype)
            # Where the sum is near zero, rounding decides whether there is a gradient.
            weights = strata.tensor(rng.standard_normal(tuple(y.shape))) * (sums.detach().abs() > 0.1).double()
            grads = strata.autograd.grad(y, given, weights.to(dtype).to(device))
            for got, reference in zip(grads, strata.autograd.grad(want, exact, weights), strict=True):
                close(got, reference, dtype)


def test_gradients_of_gradients():
    rng = np.random.default_rng(2)
    shapes = (1, 2, 4, 5), (3, 2, 3, 2), (3,), (1, 3, 2, 2)
    given = [normal(rng, *s, dtype=strata.float64, device="cpu").requires_grad_() for s in shapes]

    def f(*tensors):
        return F.convolution_relu(*tensors, stride=2, padding=(1, 0), dilation=1)

    assert strata.autograd.gradcheck(f, given)
    assert strata.autograd.gradgradcheck(f, given)


def test_kernels_of_devices():
    rng = np.random.default_rng(3)
    dtype, used = strata.bfloat16, set()
    for shape, weight_shape, settings in CASES:
        if len(shape) != 4 or settings.get("groups"):
            continue
        x = normal(rng, *shape, dtype=dtype, device=DEVICE).to(memory_format=strata.channels_last)
        weight, bias = (normal(rng, *s, dtype=dtype, device=DEVICE) for s in (weight_shape, weight_shape[:1]))
        sums = convolved(x.double(), weight.double(), bias.double(), **settings)
        for other in (None, normal(rng, *sums.shape, dtype=dtype, device=DEVICE)):
            want = F.relu(sums if other is None else sums + other.double())
            ready = other if other is None else other.to(memory_format=strata.channels_last)
            for kernel in ("product_compiled", "cudnn", "tensor_cores", "in_turn"):
                for given in (other, ready):
                    results = []
                    _C._prefer_kernel(kernel)
                    try:
                        call = lambda: results.append(F.convolution_relu(x, weight, bias, given, **settings))  # noqa: B023, E731
                        lines = strata.explain(call)
                    finally:
                        _C._prefer_kernel(None)
                    used |= {name for op, name, reason in lines if reason.startswith("chosen") and "relu" in op}
                    close(results[0], want, dtype)
    assert used >= {"in_turn", "product_compiled" if ON_HOPPER else "tensor_cores"}


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_names_of_pytorch(device):
    rng = np.random.default_rng(4)
    x, weight, bias = (normal(rng, *s, dtype=strata.float32, device=device) for s in ((2, 4, 5, 6), (6, 4, 3, 3), (6,)))
    sums = F.conv2d(x, weight, bias, padding=1)
    z = normal(rng, *sums.shape, dtype=strata.float32, device=device)
    lists = [1, 1], [1, 1], [1, 1], 1
    close(strata.cudnn_convolution_relu(x, weight, bias, *lists), F.relu(sums), strata.float32)
    for alpha in (None, 1, 0.5):
        got = strata.cudnn_convolution_add_relu(x, weight, z, alpha, bias, *lists)
        close(got, F.relu(sums + z * (1 if alpha is None else alpha)), strata.float32)
    with pytest.raises(RuntimeError, match="shape and dtype of the result"):
        F.convolution_relu(x, weight, bias, z[:1], padding=1)
    x[0, 0, 0, 0] = float("nan")
    assert np.isnan(F.convolution_relu(x, weight, bias, padding=1).cpu().numpy()).sum() == 24
    assert F.convolution_relu(x[:0], weight, bias).shape == (0, 6, 3, 4)
