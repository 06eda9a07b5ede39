"""Tensors on a device: moving, creating, printing, reading, mixing; errors. On the virtual GPU, which works on every
machine."""

import copy
import os
import pickle

import numpy as np
import pytest
import strata

KIND = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
DEVICE = strata.device(KIND, 0)
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
    y = x.to(KIND)
    assert y.device == DEVICE and y.device.type == KIND and y.device.index == 0 and y.get_device() == 0
    assert not y.is_cpu and y.is_cuda == (KIND == "cuda")
    assert y.cpu().device == strata.device("cpu") and y.cpu().tolist() == x.tolist()
    assert y.to(f"{KIND}:0") is y and y.to(DEVICE) is y and x.cpu() is x
    assert strata.empty(0, 3).to(KIND).cpu().shape == (0, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_on_the_device(dtype):
    values = strata.tensor([0.0, 1.0, 2.5, -3.7, 100.25])
    for source in DTYPES:
        x = values.abs().to(source) if source in (strata.uint8, strata.bool) else values.to(source)
        y = x.abs() if dtype is strata.uint8 and source is not strata.bool else x
        assert y.to(KIND).to(dtype).cpu().tolist() == y.to(dtype).tolist(), f"{source} to {dtype}"
        assert y.to(KIND, dtype).cpu().tolist() == y.to(dtype).tolist()


@pytest.mark.parametrize("dtype", [strata.float8_e4m3fn, strata.float8_e5m2])
def test_every_eight_bit_float_both_ways(dtype):
    codes = strata.arange(256).to(strata.uint8)
    narrow = codes.view(dtype)
    np.testing.assert_array_equal(narrow.to(KIND).to(strata.float32).cpu().numpy(), narrow.to(strata.float32).numpy())
    wide = strata.cat(
        [strata.linspace(-600, 600, 4001), strata.linspace(-0.02, 0.02, 4001), strata.tensor([1e30, -1e30])]
    )
    want = wide.to(dtype).view(strata.uint8).tolist()
    assert wide.to(KIND).to(dtype).cpu().view(strata.uint8).tolist() == want


def test_layouts_survive():
    x = strata.arange(24, dtype=strata.float32).reshape(2, 3, 4)
    for view in (x.transpose(0, 2), x[:, ::2], x[1], x.permute(1, 2, 0), x[:, :, 1:3], x.expand(5, 2, 3, 4)):
        assert view.to(KIND).cpu().tolist() == view.tolist()
    y = x.to(KIND)
    for f in (lambda t: t.transpose(0, 2), lambda t: t[:, ::2], lambda t: t.permute(1, 2, 0), lambda t: t[..., 1:3]):
        assert f(y).tolist() == f(x).tolist()
        assert f(y).contiguous().cpu().tolist() == f(x).tolist()
        assert f(y).cpu().tolist() == f(x).tolist()
        assert (f(y) + 1).cpu().tolist() == (f(x) + 1).tolist()


def test_made_on_the_device():
    for make in (strata.zeros, strata.ones, strata.empty):
        assert make(2, 3, device=KIND).device == DEVICE
    assert strata.full((2,), 7, device=KIND).tolist() == [7, 7]
    assert strata.tensor([1, 2], device=KIND).device == DEVICE
    assert strata.zeros_like(strata.ones(2, device=KIND)).device == DEVICE
    assert strata.ones(2, device=KIND).new_zeros(3).device == DEVICE
    assert strata.arange(3, device=KIND).tolist() == [0, 1, 2]
    assert strata.eye(2, device=KIND).tolist() == [[1, 0], [0, 1]]


def test_default_device():
    strata.set_default_device(KIND)
    try:
        assert strata.get_default_device() == DEVICE
        assert strata.zeros(2).device == DEVICE and strata.tensor([1.0]).device == DEVICE
        assert strata.zeros(2, device="cpu").device.type == "cpu"
    finally:
        strata.set_default_device(None)
    assert strata.zeros(2).device.type == "cpu"


def test_reading_values():
    x = strata.tensor([[1.5, -2.0]], device=KIND)
    assert x[0, 1].item() == -2 and float(x[0, 0]) == 1.5 and x.tolist() == [[1.5, -2.0]]
    assert bool(strata.tensor(True, device=KIND)) and int(strata.tensor(3, device=KIND)) == 3
    assert repr(x) == f"tensor([[ 1.5000, -2.0000]], device='{KIND}:0')"
    assert repr(strata.zeros(0, device=KIND)) == f"tensor([], device='{KIND}:0')"
    with pytest.raises(TypeError, match=f"can't convert {KIND}:0 device type tensor to numpy. Use Tensor.cpu()"):
        x.numpy()
    with pytest.raises(TypeError, match=f"can't convert {KIND}:0"):
        np.asarray(x)


def test_copies_of_objects():
    x = strata.tensor([1.0, 2.0], device=KIND)
    assert copy.deepcopy(x).device == DEVICE and copy.deepcopy(x).tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 2]


def test_devices_do_not_mix():
    x, y = strata.ones(2, device=KIND), strata.ones(2)
    with pytest.raises(
        RuntimeError,
        match=f"Expected all tensors to be on the same device, but found at least two devices, {KIND}:0 and cpu!",
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
    with pytest.raises(RuntimeError, match=f"device '{KIND}:7' is not available: invalid device ordinal"):
        strata.zeros(1, device=f"{KIND}:7")
    with pytest.raises(RuntimeError, match="device 'mps' is not available"):
        strata.zeros(1, device="mps")


def test_gradients_stay_on_their_device():
    x = strata.tensor([1.0, 2.0, 3.0], device=KIND, requires_grad=True)
    y = strata.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.exp() * x).backward(strata.ones(3, device=KIND))
    (y.exp() * y).backward(strata.ones(3))
    assert x.grad.device == DEVICE
    np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), rtol=1e-6)
    z = strata.tensor([1.0, 2.0], requires_grad=True)
    (z.to(KIND) * 3).backward(strata.ones(2, device=KIND))
    assert z.grad.device.type == "cpu" and z.grad.tolist() == [3, 3]


def test_integer_division_by_zero_is_found():
    x, zero = strata.tensor([4, 5], device=KIND), strata.tensor([2, 0], device=KIND)
    bad = x // zero
    with pytest.raises(RuntimeError, match="floor_divide: ZeroDivisionError"):  # raised where the host waits
        bad.tolist()
    assert (x // 2).tolist() == [2, 2] and bad[0].item() == 2


def close(got, want, tolerance, what):
    got, want = got.cpu().to(strata.float64), want.to(strata.float64)
    assert got.shape == want.shape
    scale = max(want.abs().max().item(), 1e-3)
    assert (got - want).abs().max().item() <= tolerance * scale, what


# Kernels for sizes that samples do not have: rows in registers, columns in vectors, tiles.
PRECISIONS = [(strata.float32, 3e-6), (strata.float64, 1e-12), (strata.bfloat16, 1.6e-2), (strata.float16, 2e-3)]


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
@pytest.mark.parametrize("n", [8, 40, 1024, 8192, 16384, 16392])
def test_softmax_of_rows_of_any_length(n, dtype, tolerance):
    strata.manual_seed(n)
    x, g = strata.randn(3, n).to(dtype), strata.randn(3, n).to(dtype)
    x[0, 3] = -float("inf")
    for f in (strata.softmax, strata.log_softmax):
        here, there = x.clone().requires_grad_(), x.to(DEVICE).requires_grad_()
        y, z = f(here, -1), f(there, -1)
        finite = strata.isfinite(y.detach())
        assert strata.equal(strata.isfinite(z.detach()).cpu(), finite)
        close(z.detach().cpu()[finite], y.detach()[finite], tolerance, (f, "result"))
        y.backward(g), z.backward(g.to(DEVICE))
        close(there.grad, here.grad, 2 * tolerance, (f, "gradient"))


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
@pytest.mark.parametrize("shape", [(1000, 512), (37, 64), (300, 2048), (5000, 72)])
def test_sums_of_rows_columns_and_all(shape, dtype, tolerance):
    strata.manual_seed(1)
    x = (strata.rand(*shape) * 0.01).to(dtype)  # no cancellation, and no sum beyond float16
    there = x.to(DEVICE)
    for dim in (0, 1, (0, 1)):
        close(there.sum(dim), x.to(strata.float64).sum(dim).to(dtype), tolerance, dim)
        assert strata.equal(there.amax(dim).cpu(), x.amax(dim))


@pytest.mark.parametrize("dtype", [strata.uint8, strata.int16, strata.int32, strata.float64, strata.bfloat16])
@pytest.mark.parametrize("shape", [(64, 128), (100, 130), (3, 80, 96), (16, 17), (2, 130, 64), (33, 2, 48)])
def test_transposed_copies(shape, dtype):
    size = 1
    for n in shape:
        size *= n
    x = (strata.arange(size) % 251).reshape(shape).to(dtype)
    for dims in ((-1, -2), (0, -1)):
        assert strata.equal(x.to(DEVICE).transpose(*dims).contiguous().cpu(), x.transpose(*dims).contiguous())
