"""The ops that an engine joins layers into: convolutions and products with a residual and an activation, of floats beside float64,
of bytes beside sums of integers in NumPy."""

import itertools
import os

import numpy as np
import pytest
import strata
from strata import _C

DEVICES = ["cpu", os.environ.get("STRATA_TEST_DEVICE", "vgpu")]
CONVOLUTION, LINEAR = _C.ops["_fused_convolution"], _C.ops["_fused_linear"]
BYTE_CONVOLUTION, BYTE_LINEAR = _C.ops["_int8_convolution"], _C.ops["_int8_linear"]
QUANTIZE, DEQUANTIZE = _C.ops["_quantize"], _C.ops["_dequantize"]
ACTIVATIONS = {
    "none": [],
    "relu": [],
    "clamp": [0.0, 6.0],
    "leaky_relu": [0.1],
    "elu": [0.7],
    "hardsigmoid": [0.2, 0.5],
    "hardswish": [],
    "sigmoid": [],
    "silu": [],
    "gelu": [],
    "gelu_tanh": [],
    "tanh": [],
    "mish": [],
}
RANGES = {np.int8: (-128, 127), np.uint8: (0, 255)}


def by_reference(call, *given):
    before = _C._set_reference_only(True)
    try:
        return call(*given)
    finally:
        _C._set_reference_only(before)


def random_window(rng):
    """[kernel, stride, padding, dilation, groups, channels of a group in and out, sizes] of a convolution."""
    dims = int(rng.integers(1, 4))
    several = [[int(v) for v in rng.integers(1, high, dims)] for high in (4, 3, 3)]
    if rng.random() < 0.3:
        several = [[3] * dims, [1] * dims, [1] * dims]
    padding = [int(v) for v in rng.integers(0, 3, rng.choice([1, dims, 2 * dims]))]
    return (
        *several,
        padding,
        int(rng.choice([1, 1, 2])),
        int(rng.choice([1, 2, 3, 16])),
        int(rng.choice([1, 5, 16, 32])),
        [int(v) for v in rng.integers(5, 10, dims)],
    )


def in_random_order(rng, t):
    return t.contiguous(memory_format=strata.channels_last) if t.dim() == 4 and rng.random() < 0.5 else t


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("device", DEVICES)
def test_random_convolutions(device, seed):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return in_random_order(rng, strata.tensor(rng.standard_normal(shape).astype(np.float32)).to(device))

    for _ in range(20 if device == "cpu" else 4):
        kernel, stride, dilation, padding, groups, c, o, sizes = random_window(rng)
        x, w = normal(2, groups * c, *sizes), normal(groups * o, c, *kernel) * 0.3
        b = normal(groups * o) if rng.random() < 0.6 else None
        window = (stride, padding, dilation, groups)
        shape = CONVOLUTION(x, w, b, None, *window, "none", [], False).shape
        other = normal(*shape) if rng.random() < 0.6 else None
        activation = str(rng.choice(list(ACTIVATIONS)))
        last = bool(rng.random() < 0.5)

        def call(*given, activation=activation, last=last, window=window):
            return CONVOLUTION(*given, *window, activation, ACTIVATIONS[activation], last)

        for _ in range(3):  # packed weights are kept from the second call on
            y = call(x, w, b, other)
        exact = by_reference(call, *(t if t is None else t.cpu().double() for t in (x, w, b, other)))
        assert y.stride() == call(x, w, b, None).stride()
        error = np.abs(y.cpu().numpy() - exact.numpy()).max(initial=0)
        assert error <= 1e-5 * max(1, np.abs(exact.numpy()).max(initial=0)), (kernel, window, activation)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16, strata.bfloat16], ids=str)
def test_linear(device, dtype):
    rng = np.random.default_rng(3)
    tolerance = {strata.float32: 1e-5, strata.float64: 1e-12, strata.float16: 3e-3, strata.bfloat16: 3e-2}[dtype]
    shapes = [((3, 4), 5), ((70, 96), 80), ((2, 33, 64), 48), ((8,), 3), ((0, 4), 5)]
    for (shape, n), activation in itertools.product(shapes, ACTIVATIONS if device == "cpu" else ["relu", "gelu"]):
        for last, transposed in ((False, False), (True, True)):
            given = [rng.standard_normal(s) for s in (shape, (n, shape[-1]), (n,), (*shape[:-1], n))]
            x, w, b, other = (strata.tensor(a).to(dtype).to(device) for a in given)
            w = w * 0.3
            if transposed:
                w = w.t().contiguous().t()
            numbers = ACTIVATIONS[activation]
            for _ in range(3):
                y = LINEAR(x, w, b, other, activation, numbers, last)
            wide = [t.cpu().double() for t in (x, w, b, other)]
            exact = by_reference(LINEAR, *wide, activation, numbers, last).numpy()
            error = np.abs(y.cpu().double().numpy() - exact).max(initial=0)
            assert y.dtype == dtype and error <= tolerance * max(1, np.abs(exact).max(initial=0)), (shape, activation)


def test_nan_and_infinities_stay_where_they_are():
    x = np.random.default_rng(0).standard_normal((1, 16, 9, 9)).astype(np.float32)
    x[0, 3, 2, 2], x[0, 5, 7, 7] = np.nan, np.inf
    for kernel, padding in ((1, 0), (3, 1)):
        w = np.ones((32, 16, kernel, kernel), np.float32)
        given = strata.tensor(x).contiguous(memory_format=strata.channels_last)
        call = (given, strata.tensor(w), None, None, [1], [padding], [1], 1, "relu", [], False)
        for _ in range(2):
            y = CONVOLUTION(*call).numpy()
        exact = by_reference(CONVOLUTION, *call).numpy()
        if kernel == 1:
            assert np.array_equal(np.isnan(y), np.isnan(exact)) and np.array_equal(np.isinf(y), np.isinf(exact))
        assert np.isnan(y).any() and (y[~np.isnan(y)] >= 0).all()


# --- bytes -------------------------------------------------------------------------------------------------------------
def sums_of(x, w, zero, stride, padding, dilation, groups):
    """The sums of a convolution in int64."""
    x, w = x.astype(np.int64) - zero, w.astype(np.int64)
    dims = x.ndim - 2
    padding = padding * dims if len(padding) == 1 else padding
    padding = padding * 2 if len(padding) == dims else padding
    x = np.pad(x, [(0, 0), (0, 0), *zip(padding[:dims], padding[dims:], strict=True)])
    out = [(x.shape[2 + d] - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1 for d in range(dims)]
    y = np.zeros((x.shape[0], w.shape[0], *out), np.int64)
    c, o = w.shape[1], w.shape[0] // groups
    for place in itertools.product(*(range(k) for k in w.shape[2:])):
        part = x[
            (
                slice(None),
                slice(None),
                *(
                    slice(p * dl, p * dl + (n - 1) * s + 1, s)
                    for p, dl, n, s in zip(place, dilation, out, stride, strict=True)
                ),
            )
        ]
        for g in range(groups):
            taps = w[(slice(g * o, (g + 1) * o), slice(None), *place)]
            y[:, g * o : (g + 1) * o] += np.einsum("nc...,oc->no...", part[:, g * c : (g + 1) * c], taps)
    return y


def activated(name, y):
    one = strata.ones(1, 1, dtype=strata.float64)
    column = strata.tensor(y.reshape(-1, 1))
    return by_reference(LINEAR, column, one, None, None, name, ACTIVATIONS[name], False).numpy().reshape(y.shape)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("device", DEVICES)
def test_bytes_are_exact_up_to_one_step(device, seed):
    rng = np.random.default_rng(seed)

    def integers(dtype, shape):
        low, high = RANGES[dtype]
        return rng.integers(low, high + 1, shape).astype(dtype)

    for _ in range(20 if device == "cpu" else 4):
        kernel, stride, dilation, padding, groups, c, o, sizes = random_window(rng)
        kind = rng.choice([np.int8, np.uint8])
        linear = rng.random() < 0.3
        x = integers(kind, (2, 3, groups * c) if linear else (2, groups * c, *sizes))
        w = rng.integers(-127, 128, (groups * o, groups * c) if linear else (groups * o, c, *kernel)).astype(np.int8)
        scales = (rng.random(groups * o if rng.random() < 0.7 else 1) * 0.01 + 0.001).astype(np.float32)
        bias = (rng.standard_normal(groups * o) * 3).astype(np.float32) if rng.random() < 0.6 else None
        zero = int(integers(kind, ())) if rng.random() < 0.4 else 0
        result = [None, np.int8, np.uint8][rng.integers(3)]
        result_zero = 0 if result is None or rng.random() < 0.5 else int(integers(result, ()))
        activation = str(rng.choice(["none", "relu", "clamp", "leaky_relu", "silu"]))
        last = bool(rng.random() < 0.5)

        if linear:
            sums = (x.astype(np.int64) - zero) @ w.astype(np.int64).T
            channel = (1, 1, -1)
        else:
            sums = sums_of(x, w, zero, stride, padding, dilation, groups)
            channel = (1, -1) + (1,) * (sums.ndim - 2)
        other_kind = rng.choice([np.int8, np.uint8])
        other = integers(other_kind, sums.shape) if rng.random() < 0.5 else None
        other_zero = int(rng.integers(0, 100)) if other is not None else 0
        numbers = [0.03, zero, 0.05, other_zero, 0.2137, result_zero]

        y = sums * 0.03 * scales.astype(np.float64).reshape(channel if scales.size > 1 else (1,) * sums.ndim)
        y = y if bias is None else y + bias.reshape(channel)
        added = 0 if other is None else 0.05 * (other.astype(np.float64) - other_zero)
        y = activated(activation, y) + added if last else activated(activation, y + added)

        def on_device(a):
            return None if a is None else in_random_order(rng, strata.tensor(a).to(device))

        tensors = [on_device(a) for a in (x, w, scales, bias, other)]
        window = () if linear else (stride, padding, dilation, groups)
        out_dtype = None if result is None else {np.int8: strata.int8, np.uint8: strata.uint8}[result]
        for _ in range(3):
            got = (BYTE_LINEAR if linear else BYTE_CONVOLUTION)(
                *tensors, *window, activation, ACTIVATIONS[activation], last, numbers, out_dtype
            )
        got = got.cpu().numpy()
        if result is None:
            assert np.abs(got - y).max() <= 2e-6 * max(1, np.abs(y).max())
        else:
            low, high = RANGES[result]
            want = np.clip(np.round(y / 0.2137) + result_zero, low, high)
            assert got.dtype == result and np.abs(got.astype(np.int64) - want).max() <= 1
            assert (got != want).mean() < 0.02 + 3 / want.size  # the sums are exact: only quotients near a half differ


@pytest.mark.parametrize("device", DEVICES)
def test_quantize_and_back(device):
    rng = np.random.default_rng(5)
    for shape in [(3, 5), (2, 3, 4, 7), (), (0, 3), (1000,)]:
        x = (rng.standard_normal(shape) * 40).astype(np.float32)
        for kind, zero in itertools.product(RANGES, (0, 100)):
            low, high = RANGES[kind]
            dtype = {np.int8: strata.int8, np.uint8: strata.uint8}[kind]
            q = QUANTIZE(in_random_order(rng, strata.tensor(x).to(device)), 0.37, zero, dtype)
            want = np.clip(np.round(x / np.float32(0.37)) + zero, low, high)
            assert np.array_equal(q.cpu().numpy(), want.astype(kind))
            back = DEQUANTIZE(q, 0.37, zero).cpu().numpy()
            assert np.array_equal(back, (want - zero).astype(np.float32) * np.float32(0.37))
    odd = strata.tensor([np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5], dtype=strata.float32, device=device)
    assert QUANTIZE(odd, 1.0, 3, strata.int8).tolist() == [3, 127, -128, 3, 5, 3]
    halves = strata.tensor([1.0, 2.0], dtype=strata.float64, device=device)[::2]
    assert QUANTIZE(halves, 0.5, 0, strata.uint8).tolist() == [2]
