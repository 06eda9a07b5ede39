"""Optimizers on a device: every rule compared with the CPU's, in few launches without copies; gradient clipping."""

import os

import numpy as np
import pytest
import strata
from optimizer_formulas import CASES
from strata import optim

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]


def there(array, dtype=strata.float32):
    return strata.tensor(np.asarray(array).tolist(), dtype=dtype).reshape(np.shape(array)).to(DEVICE)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def launches(f):
    """Names of the kernels that a call launches; only the virtual GPU counts them."""
    strata.vgpu.counters()
    f()
    strata.vgpu.synchronize()
    return [c["kernel"] for c in strata.vgpu.counters()]


def layouts(values, device):
    """The same numbers dense, at an odd address, with gaps, and transposed."""
    room = strata.zeros(values.numel() + 1, dtype=values.dtype, device=device)
    odd = room[1:].view(values.shape)
    gaps = strata.zeros(2 * values.shape[0], *values.shape[1:], dtype=values.dtype, device=device)[::2]
    turned = strata.zeros(*reversed(values.shape), dtype=values.dtype, device=device).permute(*range(values.ndim)[::-1])
    tensors = [strata.zeros(values.shape, dtype=values.dtype, device=device), odd, gaps, turned]
    return [t.copy_(values) for t in tensors]


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16, strata.bfloat16], ids=str)
@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_steps_are_those_of_the_cpu(name, options, dtype):
    rng = np.random.default_rng(0)
    shapes = [(7, 9), (65, 64), (1, 1), (0, 3)]
    values = [strata.tensor(rng.standard_normal(s).tolist(), dtype=dtype).reshape(s) for s in shapes]
    results = []
    for device in ("cpu", DEVICE):
        params = [p for v in values for p in layouts(v, device)]
        optimizer = getattr(optim, name)([p.requires_grad_() for p in params], **options)
        steps = np.random.default_rng(1)
        for _ in range(3):
            for p in params:
                g = steps.standard_normal(tuple(p.shape))
                p.grad = strata.tensor(g.tolist(), dtype=dtype).reshape(p.shape).to(device)
            optimizer.step()
        results.append(params)
    tolerance = {strata.float64: 1e-12, strata.float32: 1e-5}.get(dtype, 2 * strata.finfo(dtype).eps)
    for here, far in zip(*results, strict=True):
        np.testing.assert_allclose(wide(far), wide(here), rtol=tolerance, atol=tolerance)


def test_a_step_of_several_groups_of_tensors():
    rng = np.random.default_rng(2)
    values = [rng.standard_normal(1 + i % 5 * 1000) for i in range(150)]  # more than two launches hold
    params = [there(v, strata.float64).requires_grad_() for v in values]
    for p, v in zip(params, values, strict=True):
        p.grad = there(np.sign(v), strata.float64)
    optim.Adam(params, lr=0.5).step()
    for p, v in zip(params, values, strict=True):
        np.testing.assert_allclose(wide(p), v - 0.5 * np.sign(v) / (1 + 1e-8), rtol=1e-12, atol=1e-15)


def some_parameters(count, device="vgpu"):
    params = [strata.ones(3 + i, device=device).requires_grad_() for i in range(count)]
    for p in params:
        p.grad = strata.ones_like(p)
    return params


@pytest.mark.parametrize("count, expected", [(8, 1), (64, 1), (200, 4)])
def test_a_step_is_few_launches_and_no_copy(count, expected):
    optimizer = optim.Adam(some_parameters(count))
    optimizer.step()
    assert launches(optimizer.step) == ["Adam_f32"] * expected


def test_parameters_of_another_age_take_a_launch_of_their_own():
    params = some_parameters(4)
    optimizer = optim.Adam(params, lr=0.25)
    params[2].grad = None
    optimizer.step()
    params[2].grad = strata.ones_like(params[2])
    optimizer.step()
    assert launches(optimizer.step) == ["Adam_f32"] * 2
    np.testing.assert_allclose([p[0].item() for p in params], [0.25, 0.25, 0.5, 0.25], rtol=1e-6)


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16, strata.bfloat16], ids=str)
@pytest.mark.parametrize("norm_type", [2.0, 1.0, 0.0, 3.0, float("inf"), -float("inf")])
def test_gradients_of_any_layout_are_clipped_by_their_norm(norm_type, dtype):
    rng = np.random.default_rng(3)
    small, large = (strata.tensor((rng.standard_normal(s) / 8).tolist(), dtype=dtype) for s in [(5, 7), (130, 257)])
    grads = [*layouts(small, DEVICE), large.to(DEVICE), strata.zeros(0, 2, dtype=dtype, device=DEVICE)]
    params = [strata.zeros(g.shape, dtype=dtype, device=DEVICE).requires_grad_() for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    before = [wide(g) for g in grads]
    total = np.linalg.norm(np.concatenate([g.reshape(-1) for g in before]), norm_type)
    norm = strata.nn.utils.clip_grad_norm_(params, total / 2, norm_type)
    unit = strata.finfo(dtype).eps
    np.testing.assert_allclose(wide(norm), total, rtol=max(unit, 1e-12))
    factor = total / 2 / (wide(norm) + 1e-6)
    for _ in range(2):  # the second time the norm is small enough
        for g, was in zip(grads, before, strict=True):
            np.testing.assert_allclose(wide(g), was * factor, rtol=unit, atol=6e-8 if dtype == strata.float16 else 0)
        strata.nn.utils.clip_grad_norm_(params, 1e9, norm_type)


def test_a_norm_that_is_no_number_spoils_the_gradients():
    p = strata.zeros(3, device=DEVICE).requires_grad_()
    p.grad = there([1.0, float("nan"), 2.0])
    assert np.isnan(wide(strata.nn.utils.clip_grad_norm_([p], 1.0)))
    assert np.isnan(wide(p.grad)).all()


def test_clipping_is_three_launches_and_no_wait():
    params = some_parameters(100)
    assert launches(lambda: strata.nn.utils.clip_grad_norm_(params, 1.0)) == [
        "norm_of_pieces",
        "norm_of_all",
        "scale_to_norm",
    ]


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_a_0_d_parameter_and_its_state_are_on_one_device(name, options):
    """Only counts and learning rates may be on the CPU: a kernel would read anything else through a host address."""
    p = strata.tensor(1.0, device=DEVICE).requires_grad_()
    optimizer = getattr(optim, name)([p], **options)
    p.grad = strata.tensor(0.5, device=DEVICE)
    optimizer.step()
    state = optimizer.state[p]
    for key, value in list(state.items()):
        if isinstance(value, strata.Tensor) and value.device.type != "cpu":
            state[key] = value.cpu()
            with pytest.raises(RuntimeError, match="same device"):
                optimizer.step()
            state[key] = value
    optimizer.step()
    assert np.isfinite(wide(p))


@pytest.mark.parametrize("moved", range(3))
def test_the_scale_of_gradients_is_on_one_device(moved):
    arguments = [strata.tensor(2.0), strata.tensor(0, dtype=strata.int32), strata.tensor(0.0)]
    there = [t if i == moved else t.to(DEVICE) for i, t in enumerate(arguments)]
    with pytest.raises(RuntimeError, match="same device"):
        strata._C.ops["_amp_update_scale_"](*there, 2.0, 0.5, 10)
    found, inverse, grad = (strata.tensor(1.0, device="cpu" if i == moved else DEVICE) for i in range(3))
    with pytest.raises(RuntimeError, match="same device"):
        strata._C.ops["_amp_foreach_non_finite_check_and_unscale_"]([grad], found, inverse)
    assert wide(strata.ones(2, device=DEVICE) + 1).tolist() == [2, 2]  # the device is as it was
