"""Tensors on a device: moving, making, printing, reading, mixing; what is refused and how. On the virtual GPU, which every
machine has."""

import copy
import pickle

import numpy as np
import pytest
import strata

DEVICE = strata.device("vgpu", 0)
DTYPES = [
    strata.bool,
    strata.uint8,
    strata.int8,
    strata.int16,
    strata.int32,
    strata.int64,
    strata.float16,
    strata.bfloat16,
    strata.float32,
    strata.float64,
]


def test_there_and_back():
    x = strata.arange(12, dtype=strata.float32).reshape(3, 4)
    y = x.to("vgpu")
    assert y.device == DEVICE and y.device.type == "vgpu" and y.device.index == 0 and y.get_device() == 0
    assert not y.is_cpu and not y.is_cuda
    assert y.cpu().device == strata.device("cpu") and y.cpu().tolist() == x.tolist()
    assert y.to("vgpu:0") is y and y.to(DEVICE) is y and x.cpu() is x
    assert strata.empty(0, 3).to("vgpu").cpu().shape == (0, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_on_the_device(dtype):
    values = strata.tensor([0.0, 1.0, 2.5, -3.7, 100.25])
    for source in DTYPES:
        x = values.abs().to(source) if source in (strata.uint8, strata.bool) else values.to(source)
        y = x.abs() if dtype is strata.uint8 and source is not strata.bool else x
        assert y.to("vgpu").to(dtype).cpu().tolist() == y.to(dtype).tolist(), f"{source} to {dtype}"
        assert y.to("vgpu", dtype).cpu().tolist() == y.to(dtype).tolist()


@pytest.mark.parametrize("dtype", [strata.float8_e4m3fn, strata.float8_e5m2])
def test_every_eight_bit_float_both_ways(dtype):
    codes = strata.arange(256).to(strata.uint8)
    narrow = codes.view(dtype)
    np.testing.assert_array_equal(narrow.to("vgpu").to(strata.float32).cpu().numpy(), narrow.to(strata.float32).numpy())
    wide = strata.cat(
        [strata.linspace(-600, 600, 4001), strata.linspace(-0.02, 0.02, 4001), strata.tensor([1e30, -1e30])]
    )
    want = wide.to(dtype).view(strata.uint8).tolist()
    assert wide.to("vgpu").to(dtype).cpu().view(strata.uint8).tolist() == want


def test_layouts_survive():
    x = strata.arange(24, dtype=strata.float32).reshape(2, 3, 4)
    for view in (x.transpose(0, 2), x[:, ::2], x[1], x.permute(1, 2, 0), x[:, :, 1:3], x.expand(5, 2, 3, 4)):
        assert view.to("vgpu").cpu().tolist() == view.tolist()
    y = x.to("vgpu")
    for f in (lambda t: t.transpose(0, 2), lambda t: t[:, ::2], lambda t: t.permute(1, 2, 0), lambda t: t[..., 1:3]):
        assert f(y).tolist() == f(x).tolist()
        assert f(y).contiguous().cpu().tolist() == f(x).tolist()
        assert f(y).cpu().tolist() == f(x).tolist()
        assert (f(y) + 1).cpu().tolist() == (f(x) + 1).tolist()


def test_made_on_the_device():
    for make in (strata.zeros, strata.ones, strata.empty):
        assert make(2, 3, device="vgpu").device == DEVICE
    assert strata.full((2,), 7, device="vgpu").tolist() == [7, 7]
    assert strata.tensor([1, 2], device="vgpu").device == DEVICE
    assert strata.zeros_like(strata.ones(2, device="vgpu")).device == DEVICE
    assert strata.ones(2, device="vgpu").new_zeros(3).device == DEVICE
    assert strata.arange(3, device="vgpu").tolist() == [0, 1, 2]
    assert strata.eye(2, device="vgpu").tolist() == [[1, 0], [0, 1]]


def test_default_device():
    strata.set_default_device("vgpu")
    try:
        assert strata.get_default_device() == DEVICE
        assert strata.zeros(2).device == DEVICE and strata.tensor([1.0]).device == DEVICE
        assert strata.zeros(2, device="cpu").device.type == "cpu"
    finally:
        strata.set_default_device(None)
    assert strata.zeros(2).device.type == "cpu"


def test_reading_values():
    x = strata.tensor([[1.5, -2.0]], device="vgpu")
    assert x[0, 1].item() == -2 and float(x[0, 0]) == 1.5 and x.tolist() == [[1.5, -2.0]]
    assert bool(strata.tensor(True, device="vgpu")) and int(strata.tensor(3, device="vgpu")) == 3
    assert repr(x) == "tensor([[ 1.5000, -2.0000]], device='vgpu:0')"
    assert repr(strata.zeros(0, device="vgpu")) == "tensor([], device='vgpu:0')"
    with pytest.raises(TypeError, match="can't convert vgpu:0 device type tensor to numpy. Use Tensor.cpu()"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert vgpu:0"):
        np.asarray(x)


def test_copies_of_objects():
    x = strata.tensor([1.0, 2.0], device="vgpu")
    assert copy.deepcopy(x).device == DEVICE and copy.deepcopy(x).tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 2]


def test_devices_do_not_mix():
    x, y = strata.ones(2, device="vgpu"), strata.ones(2)
    with pytest.raises(
        RuntimeError,
        match="Expected all tensors to be on the same device, but found at least two devices, vgpu:0 and cpu!",
    ):
        x + y
    with pytest.raises(RuntimeError, match="same device"):
        strata.cat([x, y])
    assert (x + strata.tensor(2.0)).tolist() == [3, 3] and (strata.tensor(2.0) * x).device == DEVICE
    x.copy_(strata.tensor([5, 6]))
    assert x.tolist() == [5, 6]
    y.copy_(x)
    assert y.tolist() == [5, 6] and y.device.type == "cpu"


def test_what_is_not_there_says_so():
    with pytest.raises(RuntimeError, match="device 'vgpu:7' is not available: invalid device ordinal"):
        strata.zeros(1, device="vgpu:7")
    with pytest.raises(RuntimeError, match="device 'mps' is not available"):
        strata.zeros(1, device="mps")


def test_gradients_stay_on_their_device():
    x = strata.tensor([1.0, 2.0, 3.0], device="vgpu", requires_grad=True)
    y = strata.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.exp() * x).backward(strata.ones(3, device="vgpu"))
    (y.exp() * y).backward(strata.ones(3))
    assert x.grad.device == DEVICE
    np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), rtol=1e-6)
    z = strata.tensor([1.0, 2.0], requires_grad=True)
    (z.to("vgpu") * 3).backward(strata.ones(2, device="vgpu"))
    assert z.grad.device.type == "cpu" and z.grad.tolist() == [3, 3]


def test_integer_division_by_zero_is_found():
    x, zero = strata.tensor([4, 5], device="vgpu"), strata.tensor([2, 0], device="vgpu")
    bad = x // zero
    with pytest.raises(RuntimeError, match="floor_divide: ZeroDivisionError"):  # raised where the host waits
        bad.tolist()
    assert (x // 2).tolist() == [2, 2] and bad[0].item() == 2
