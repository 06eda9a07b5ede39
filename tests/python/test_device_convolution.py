"""Convolutions on a device and both gradients, each kernel by itself, against float64 NumPy: small integers exactly, normal numbers
within the error of one rounding. One to three dimensions, strides, padding, dilation, odd channels, memory orders, addresses off the
vectors, outputs with strides. On cuda with cuDNN, cuBLASLt and the kernels for Hopper, too."""

import itertools
import os
import threading

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_CARD = DEVICE == "cuda"
GPU = getattr(strata, DEVICE)
HALVES = [strata.bfloat16, strata.float16]
# The error of one rounding of the result, and of sums in float; Winograd's method in float32 has three times that.
ERRORS = {strata.bfloat16: 4e-3, strata.float16: 5e-4, strata.float32: 6e-6, strata.float64: 1e-14}
SCALE = 8 if ON_CARD else 1  # of channels
POINTWISE = ["product_hopper_ahead", "product_cublaslt", "product_hopper", "product_tensor_cores"]
MODES = ["forward", "data", "weight"]

# images, channels of both sides, size, kernel, stride, padding, dilation
GEOMETRIES = {
    "3x3": (2, 8, 16, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "odd channels": (1, 3, 5, (6, 5), (3, 2), (1, 1), (1, 0), (1, 1)),
    "one channel": (2, 1, 1, (5, 6), (2, 3), (1, 1), (1, 1), (1, 1)),
    "stride 2": (2, 8, 8, (9, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    "stride 2, odd": (1, 9, 11, (8, 7), (3, 5), (2, 3), (0, 2), (1, 1)),
    "stride and dilation": (1, 8, 8, (12, 13), (3, 3), (2, 3), (2, 4), (2, 2)),
    "dilation": (1, 16, 8, (9, 9), (3, 3), (1, 1), (2, 3), (2, 3)),
    "padding beyond the kernel": (1, 8, 8, (4, 4), (2, 2), (1, 1), (4, 3), (1, 1)),
    "stride beyond the kernel": (2, 8, 8, (9, 10), (2, 1), (4, 3), (0, 0), (1, 1)),
    "1x1, stride 2": (2, 8, 24, (7, 6), (1, 1), (2, 2), (0, 0), (1, 1)),
    "the whole input": (3, 8, 8, (4, 3), (4, 3), (1, 1), (0, 0), (1, 1)),
    "several tiles": (2, 40, 72, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one dimension": (2, 8, 16, (19,), (5,), (2,), (2,), (1,)),
    "three dimensions": (1, 8, 9, (4, 5, 6), (2, 3, 3), (1, 2, 1), (0, 1, 1), (1, 1, 2)),
}
ONES = {
    "1x1": (2, 24, 16, (5, 6), (1, 1), (1, 1), (0, 0), (1, 1)),
    "1x1, odd": (3, 7, 5, (3, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    "one position": (40, 8, 16, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    "one image": (1, 8, 16, (6, 7), (1, 1), (1, 1), (0, 0), (1, 1)),
    "three dimensions": (2, 8, 8, (2, 3, 4), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
}


def entries(dtype, names, size):
    """Those that this device has, for a kernel of this size and a convolution large enough for all."""
    n, c, plane = (32, 64, 32) if ON_CARD else (1, 8, 4)
    x, w = (strata.ones(*shape, dtype=dtype, device=DEVICE) for shape in [(n, c, plane, plane), (c, c, size, size)])
    ready = []
    for name in names:
        _C._prefer_kernel(name)
        try:
            lines = strata.explain(F.conv2d, x, w, padding=size // 2)
        finally:
            _C._prefer_kernel(None)
        if lines[-1][1] == name:
            ready.append(name)
    return ready


GENERAL = ["cudnn", "cudnn_channels_last", "tensor_cores", "implicit_gemm"]
KERNELS = [(dtype, name) for dtype in HALVES for name in entries(dtype, GENERAL, 3)]
WIDE = [(dtype, name) for dtype in (strata.float32, strata.float64) for name in entries(dtype, GENERAL, 3)]
PRODUCTS = [(dtype, name) for dtype in HALVES for name in entries(dtype, POINTWISE, 1)]


class Case:
    """A convolution with the three tensors of each mode, and their values in float64."""

    def __init__(self, geometry, dtype, scale=SCALE, seed=1):
        n, c, o, size, kernel, stride, padding, dilation = geometry
        self.n, self.c, self.o = n, c * scale, o * scale
        self.size, self.kernel, self.stride, self.padding, self.dilation = size, kernel, stride, padding, dilation
        self.out = tuple(
            (s + 2 * p - d * (k - 1) - 1) // t + 1
            for s, k, t, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        )
        self.dtype = dtype
        rng = np.random.default_rng(seed)
        self.big = self.integers(rng, n, self.c, *size)
        self.weight = self.integers(rng, self.o, self.c, *kernel)
        self.small = self.integers(rng, n, self.o, *self.out)
        self.bias = self.integers(rng, self.o)

    def integers(self, rng, *shape):
        return rng.integers(-2, 3, shape).astype(np.float64)

    def there(self, values):
        return strata.tensor(values).to(self.dtype).to(DEVICE)

    def taps(self):
        """A slice of the weight, and the part of the padded larger side that it meets."""
        for at in itertools.product(*(range(k) for k in self.kernel)):
            window = tuple(
                slice(a * d, a * d + (o - 1) * t + 1, t)
                for a, d, o, t in zip(at, self.dilation, self.out, self.stride, strict=True)
            )
            yield (slice(None), slice(None), *at), (slice(None), slice(None), *window)

    def padded(self, values):
        return np.pad(values, [(0, 0), (0, 0), *((p, p) for p in self.padding)])

    def expected(self, mode):
        if mode == "forward":
            big = self.padded(self.big)
            return sum(np.einsum("nc...,oc->no...", big[window], self.weight[tap]) for tap, window in self.taps())
        if mode == "weight":
            out, big = np.zeros(self.weight.shape), self.padded(self.big)
            for tap, window in self.taps():
                out[tap] = np.einsum(
                    "ncp,nop->oc", big[window].reshape(self.n, self.c, -1), self.small.reshape(self.n, self.o, -1)
                )
            return out
        out = np.zeros(self.padded(self.big).shape)
        for tap, window in self.taps():
            out[window] += np.einsum("no...,oc->nc...", self.small, self.weight[tap])
        return out[(slice(None), slice(None), *(slice(p, p + s) for p, s in zip(self.padding, self.size, strict=True)))]

    def run(self, mode, kernel, big, weight, small, bias=None, out=None, must=True):
        rests = zip(self.size, self.out, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        extra = [s - ((o - 1) * t - 2 * p + d * (k - 1) + 1) for s, o, k, t, p, d in rests]
        lists = [list(self.stride), list(self.padding), list(self.dilation)]
        kwargs = {} if out is None else dict(out=out)
        calls = {
            "forward": lambda: _C.ops["convolution"](big, weight, bias, *lists, False, [0], 1, **kwargs),
            "data": lambda: _C.ops["convolution"](small, weight, None, *lists, True, extra, 1, **kwargs),
            "weight": lambda: _C.ops["_convolution_weight_grad"](big, small, list(weight.shape), *lists, 1),
        }
        results = []
        _C._prefer_kernel(kernel)
        try:
            lines = strata.explain(lambda: results.append(calls[mode]()))
        finally:
            _C._prefer_kernel(None)
        self.lines = [line for line in lines if "convolution" in line[0]]
        chosen = [name for _, name, reason in self.lines if reason.startswith("chosen")]
        assert chosen == [kernel] or not must or self.is_left_to_others(kernel), self.lines
        return results[0]

    def is_left_to_others(self, kernel):
        """cuDNN does not take all of float32; copies to channels-last order are for large planes."""
        return kernel == "cudnn_channels_last" or (kernel == "cudnn" and self.dtype == strata.float32)

    def tensors(self):
        return self.there(self.big), self.there(self.weight), self.there(self.small)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def rounded(values, dtype):
    return strata.tensor(values).to(dtype).to(strata.float64).numpy()


def same(got, want, dtype, kernel=None):
    """Rounded once. Winograd's method, which cuDNN has for float32, is not exact."""
    inexact = kernel is not None and kernel.startswith("cudnn") and dtype == strata.float32
    np.testing.assert_allclose(
        wide(got), rounded(want, dtype), rtol=1e-4 if inexact else 0, atol=1e-3 if inexact else 0
    )


def last(t):
    """The same values with the channels last in memory, for any number of dimensions."""
    order = [0, *range(2, t.dim()), 1]
    return t.permute(*order).contiguous().permute(0, t.dim() - 1, *range(1, t.dim() - 1))


def apart(t):
    """The same values as every other element of a larger tensor."""
    out = strata.full((*t.shape[:-1], 2 * t.shape[-1]), float("nan"), dtype=t.dtype, device=t.device)[..., ::2]
    out.copy_(t)
    return out


def off(t):
    """The same values with an address that is not a multiple of 16 bytes."""
    out = strata.full((t.numel() + 1,), float("nan"), dtype=t.dtype, device=t.device)[1:].view(*t.shape)
    out.copy_(t)
    return out


ORDERS = {"first": lambda t: t, "last": last, "apart": apart, "off": off, "last, off": lambda t: last_off(t)}


def last_off(t):
    order = [0, *range(2, t.dim()), 1]
    return off(t.permute(*order).contiguous()).permute(0, t.dim() - 1, *range(1, t.dim() - 1))


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS + WIDE)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_geometries(geometry, dtype, kernel):
    case = Case(GEOMETRIES[geometry], dtype)
    big, weight, small = case.tensors()
    for mode in MODES:
        want = case.expected(mode)
        for order in (ORDERS["first"], ORDERS["last"]):
            same(case.run(mode, kernel, order(big), order(weight), order(small)), want, dtype, kernel)


@pytest.mark.parametrize(("dtype", "kernel"), PRODUCTS)
@pytest.mark.parametrize("geometry", ONES, ids=str)
def test_convolutions_that_are_products(geometry, dtype, kernel):
    n, *others = ONES[geometry]
    case = Case((n * 4 if ON_CARD else n, *others), dtype, scale=16 if ON_CARD else 1)
    big, weight, small = case.tensors()
    for mode in MODES:
        want = case.expected(mode)
        for order in (ORDERS["first"], ORDERS["last"]):
            must = not ON_CARD and mode != "weight"
            same(case.run(mode, kernel, order(big), order(weight), order(small), must=must), want, dtype)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
@pytest.mark.parametrize("mode", MODES)
def test_orders_of_memory_and_addresses(mode, dtype, kernel):
    """Every operand in every order, beside the others in order."""
    for geometry in ("3x3", "odd channels"):
        case = Case(GEOMETRIES[geometry], dtype)
        want = case.expected(mode)
        for which, (name, order) in itertools.product(range(3), ORDERS.items()):
            for others in (ORDERS["first"], ORDERS["last"]):
                given = [order(t) if i == which else others(t) for i, t in enumerate(case.tensors())]
                same(case.run(mode, kernel, *given, must="cudnn" not in kernel), want, dtype), name


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_outputs_with_strides(dtype, kernel):
    case = Case(GEOMETRIES["3x3"], dtype)
    big, weight, small = case.tensors()
    for mode, like in (("forward", small), ("data", big)):
        want = case.expected(mode)
        for order in ORDERS.values():
            out = order(strata.full(like.shape, 7.0, dtype=dtype, device=DEVICE))
            case.run(mode, kernel, big, weight, small, out=out, must="cudnn" not in kernel)
            same(out, want, dtype)
    inside = strata.full((*small.shape[:-1], small.shape[-1] + 2), 7.0, dtype=dtype, device=DEVICE)
    case.run("forward", kernel, big, weight, small, out=inside[..., 1:-1], must="cudnn" not in kernel)
    same(inside[..., 1:-1], case.expected("forward"), dtype)
    assert (wide(inside)[..., [0, -1]] == 7).all()


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS + PRODUCTS)
def test_bias(dtype, kernel):
    """cuDNN's result is rounded before the bias is added."""
    geometry = ONES["1x1"] if (dtype, kernel) in PRODUCTS else GEOMETRIES["3x3"]
    case = Case(geometry, dtype, scale=16 if ON_CARD else 1)
    big, weight, small = case.tensors()
    want = case.expected("forward") + case.bias.reshape(-1, *[1] * len(case.size))
    slack = (
        {strata.bfloat16: 2.0**-7, strata.float16: 2.0**-10}[dtype] if "cudnn" in kernel or "cublaslt" in kernel else 0
    )
    bias = case.there(case.bias)
    for order, values in itertools.product((ORDERS["first"], ORDERS["last"]), (bias, apart(bias), off(bias))):
        got = case.run("forward", kernel, order(big), order(weight), order(small), values, must=not ON_CARD)
        np.testing.assert_allclose(wide(got), rounded(want, dtype), rtol=slack, atol=slack * np.abs(want).max())


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS + WIDE)
@pytest.mark.parametrize("mode", MODES)
def test_normal_numbers(mode, dtype, kernel):
    class Normal(Case):
        def integers(self, rng, *shape):
            return rounded(rng.standard_normal(shape), dtype)

    shapes = [
        (2, 24, 40, (10, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
        (1, 12, 6, (15, 14), (5, 5), (2, 2), (2, 2), (1, 1)),
    ]
    for geometry in shapes:
        case = Normal(geometry, dtype)
        want = case.expected(mode)
        got = wide(case.run(mode, kernel, *(last(t) for t in case.tensors())))
        assert np.linalg.norm(got - want) <= ERRORS[dtype] * np.linalg.norm(want)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_planes_in_channels_first_order(dtype, kernel):
    """On a GPU, large enough for copies to channels-last order."""
    n, size = (16, 64) if ON_CARD else (2, 8)
    for stride in (1, 2):
        case = Case((n, 8, 8, (size, size), (3, 3), (stride, stride), (1, 1), (1, 1)), dtype)
        for mode in MODES:
            same(case.run(mode, kernel, *case.tensors()), case.expected(mode), dtype)
            assert [name for _, name, reason in case.lines if reason.startswith("chosen")] == [kernel], case.lines


@pytest.mark.parametrize("dtype", HALVES)
def test_groups(dtype):
    """cuDNN's, or those of the kernel for every dtype."""
    for groups, c, o in [(2, 8, 6), (8, 8, 8), (4, 8, 16)]:
        rng = np.random.default_rng(3)
        x, w = (
            rng.integers(-2, 3, (2, c, 6, 7)).astype(np.float64),
            rng.integers(-2, 3, (o, c // groups, 3, 3)).astype(np.float64),
        )
        leaves = [strata.tensor(v).to(dtype).to(DEVICE).requires_grad_() for v in (x, w)]
        here = [strata.tensor(v).requires_grad_() for v in (x, w)]
        for a, b in (leaves, here):
            F.conv2d(a, b, padding=1, groups=groups).sum().backward()
        for there, expected in zip(leaves, here, strict=True):
            same(there.grad, expected.grad.numpy(), dtype)


@pytest.mark.parametrize("dtype", [*HALVES, strata.float32])
@pytest.mark.parametrize("layout", [strata.contiguous_format, strata.channels_last])
def test_gradients_of_a_layer(layout, dtype):
    case = Case(GEOMETRIES["stride 2"], dtype)
    leaves = [case.there(v) for v in (case.big, case.weight, case.bias)]
    leaves[:2] = [t.contiguous(memory_format=layout) for t in leaves[:2]]
    for t in leaves:
        t.requires_grad_()
    F.conv2d(*leaves, stride=case.stride, padding=case.padding).backward(case.there(case.small))
    wants = [case.expected("data"), case.expected("weight"), case.small.sum((0, 2, 3))]
    for t, want in zip(leaves, wants, strict=True):
        same(t.grad, want, dtype, "cudnn")


@pytest.mark.parametrize("dtype", [*HALVES, strata.float32])
def test_empty_sizes(dtype):
    for n, c, o in [(0, 4, 3), (2, 0, 3), (2, 4, 0)]:
        x, w, b = (strata.ones(*shape, dtype=dtype, device=DEVICE) for shape in [(n, c, 5, 5), (o, c, 3, 3), (o,)])
        got = F.conv2d(x, w, b)
        assert got.shape == (n, o, 3, 3) and (wide(got) == (1 if c == 0 else 0)).all()
        got = _C.ops["_convolution_weight_grad"](x, got, [o, c, 3, 3], [1], [0], [1], 1)
        assert got.shape == (o, c, 3, 3) and (wide(got) == 0).all()


def test_every_entry_tells_its_reason():
    x, w = (strata.ones(*shape, dtype=strata.bfloat16, device="vgpu") for shape in [(2, 8, 6, 6), (8, 8, 3, 3)])
    one = w[..., :1, :1].contiguous()
    _C._prefer_kernel("implicit_gemm")
    try:
        lines = {name: reason for _, name, reason in strata.explain(F.conv2d, x, w)}
        planes = {name: reason for _, name, reason in strata.explain(F.conv2d, x, one)}
        pointwise = {name: reason for _, name, reason in strata.explain(F.conv2d, last(x), one)}
    finally:
        _C._prefer_kernel(None)
    assert lines["cudnn"] == lines["cudnn_channels_last"] == "cuDNN runs on device cuda"
    assert all("kernels of one element" in lines[name] for name in POINTWISE)
    assert lines["tensor_cores"].startswith("ready, but implicit_gemm is preferred; plan 64x64")
    assert planes["product_cublaslt"] == "the planes of an image are small"
    assert pointwise["product_cublaslt"] == "cuBLASLt runs on device cuda"
    assert pointwise["product_tensor_cores"].startswith("ready, but implicit_gemm is preferred")
    assert strata.explain(F.conv2d, x, w)[-1][1] == "tensor_cores"
    assert strata.explain(F.conv2d, x, one)[-1][1] == "product_tensor_cores"
    floats = {name: reason for _, name, reason in strata.explain(F.conv2d, x.double(), w.double())}
    assert floats["tensor_cores"] == "for float16 and bfloat16"
    groups = {name: reason for _, name, reason in strata.explain(F.conv2d, x, w[:, :4], groups=2)}
    assert groups["tensor_cores"] == "for one group"
    far = strata.ones(1, 1, 40, dtype=strata.bfloat16, device="vgpu")
    strided = {name: reason for _, name, reason in strata.explain(F.conv_transpose1d, far, far[..., :9], stride=9)}
    assert strided["tensor_cores"] == "the stride has too many phases"


@pytest.mark.parametrize("kernel", entries(strata.bfloat16, GENERAL, 3))
def test_the_same_bits_each_time(kernel):
    case = Case((4, 16, 16, (14, 14), (3, 3), (1, 1), (1, 1), (1, 1)), strata.bfloat16)
    rng = np.random.default_rng(5)
    tensors = [case.there(rng.standard_normal(t.shape)) for t in case.tensors()]
    for mode in MODES:
        runs = [wide(case.run(mode, kernel, *tensors)) for _ in range(3)]
        np.testing.assert_array_equal(runs[0], runs[1])
        np.testing.assert_array_equal(runs[0], runs[2])


@pytest.mark.parametrize("kernel", entries(strata.bfloat16, GENERAL, 3))
def test_graphs_and_threads(kernel):
    case = Case(GEOMETRIES["3x3"], strata.bfloat16)
    big, weight, small = (last(t) for t in case.tensors())
    want = case.expected("forward")
    case.run("forward", kernel, big, weight, small)
    graph = GPU.CUDAGraph()
    with GPU.graph(graph):
        got = case.run("forward", kernel, big, weight, small)
    big.copy_(-big)
    graph.replay()
    GPU.synchronize()
    same(got, -want, strata.bfloat16)
    wrong = []

    def work(factor):
        own = Case(GEOMETRIES["3x3"], strata.bfloat16)
        with GPU.stream(GPU.Stream()):
            mine = big * factor
            for _ in range(5):
                if not (
                    wide(own.run("forward", kernel, mine, weight, small)) == rounded(-factor * want, strata.bfloat16)
                ).all():
                    wrong.append(factor)

    GPU.synchronize()
    threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_large_tiles_and_parts():
    """Sizes for which each mode takes 128x128 tiles, and the gradient of the weight several parts."""
    shape = (
        (16, 72, 136, (17, 17), (3, 3), (1, 1), (1, 1), (1, 1))
        if not ON_CARD
        else (32, 72, 136, (33, 33), (3, 3), (1, 1), (1, 1), (1, 1))
    )
    case = Case(shape, strata.bfloat16, scale=1)
    tensors = [last(t) for t in case.tensors()]
    for mode in MODES:
        same(case.run(mode, "tensor_cores", *tensors), case.expected(mode), strata.bfloat16)
        if mode == "weight" or ON_CARD:
            assert any("plan 128x128" in reason for _, name, reason in case.lines if name == "tensor_cores"), case.lines
