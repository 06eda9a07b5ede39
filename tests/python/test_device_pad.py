"""Padding with a value on a device, in one pass or by a fill and a copy, compared with NumPy."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
RNG = np.random.default_rng(9)
PADS = [
    ((7,), (0, 0)),
    ((7,), (2, 3)),
    ((7,), (-2, 3)),
    ((7,), (-7, 1)),
    ((3, 0), (1, 2)),
    ((5, 6), (1, 1, 2, 0)),
    ((3, 4, 5, 6), (1, 1, 1, 1)),
    ((3, 4, 5, 6), (0, 0, -1, 2)),
    ((2, 3, 1, 300), (1, 0, 0, 0, 2, 2)),
    ((2, 2, 2, 2, 2, 3), (1,) * 12),  # more axes than the kernel of one pass has
]


def padded(x, pad, value):
    for i in range(len(pad) // 2):
        axis = x.ndim - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        x = np.take(x, range(max(0, -before), x.shape[axis] + min(0, after)), axis)
        widths = [(0, 0)] * x.ndim
        widths[axis] = (max(0, before), max(0, after))
        x = np.pad(x, widths, constant_values=value)
    return x


@pytest.mark.parametrize("shape, pad", PADS)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_padding_with_a_value(shape, pad, dtype):
    x = (RNG.integers(-9, 9, shape) + (1j if dtype == "complex128" else 0)).astype(dtype)
    t = strata.from_numpy(np.ascontiguousarray(x)).to(DEVICE)
    value = 1 if dtype == "bool" else 3
    got = strata.constant_pad_nd(t, pad, value)
    assert got.dtype == t.dtype
    np.testing.assert_array_equal(got.cpu().numpy(), padded(x, pad, value))
    if x.ndim > 1:
        got = strata.constant_pad_nd(t.transpose(0, -1), pad, value)
        np.testing.assert_array_equal(got.cpu().numpy(), padded(np.swapaxes(x, 0, -1), pad, value))


def test_padding_of_halves_keeps_bits_and_crops_gradients():
    x = strata.randn(3, 5, 7).to(strata.bfloat16).to(DEVICE).requires_grad_()
    y = strata.nn.functional.pad(x, (1, -2, 2, 2), value=-0.5)
    want = padded(x.detach().cpu().float().numpy(), (1, -2, 2, 2), -0.5)
    np.testing.assert_array_equal(y.detach().cpu().float().numpy(), want)
    y.sum().backward()
    want = np.ones((3, 5, 7))
    want[..., -2:] = 0
    np.testing.assert_array_equal(x.grad.cpu().float().numpy(), want)


def test_channels_last_stays():
    x = strata.randn(2, 3, 4, 5).to(DEVICE).contiguous(memory_format=strata.channels_last)
    y = strata.nn.functional.pad(x, (1, 1, 1, 1))
    assert y.is_contiguous(memory_format=strata.channels_last)
    np.testing.assert_array_equal(y.cpu().numpy(), padded(x.cpu().numpy(), (1, 1, 1, 1), 0))
