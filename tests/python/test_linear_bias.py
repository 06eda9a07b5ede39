"""linear with a bias of one element, which all columns get: every dtype, also where a library multiplies, with gradients."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from strata.nn import functional as F


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16, strata.bfloat16])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(3, 4, 3), (1, 8, 1), (128, 64, 96), (2, 0, 5), (0, 3, 4)])
@pytest.mark.parametrize("shape", [(1,), ()], ids=["vector", "scalar"])
def test_one_element(device, dtype, rows, inputs, outputs, shape):
    rng = np.random.default_rng(rows)
    x, w = (rng.integers(-3, 4, s).astype(np.float64) for s in ((rows, inputs), (outputs, inputs)))
    bias = strata.full(shape, 2.0, dtype=dtype, device=device, requires_grad=True)
    y = F.linear(*(strata.tensor(a).to(dtype).to(device) for a in (x, w)), bias)
    assert np.array_equal(y.detach().double().cpu().numpy(), x @ w.T + 2)  # whole numbers: exact
    y.sum().backward()
    assert bias.grad.shape == shape and bias.grad.item() == strata.tensor(float(rows * outputs)).to(dtype).item()
