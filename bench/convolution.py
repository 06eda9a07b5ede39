"""Convolutions and both gradients beside PyTorch on one GPU: convolution.py [--cases REGEX] [--rounds 7] [--entries] [--out DIR].

The shapes are those of ResNet-50 with 64 images. See beside.py for how times are measured. Results go to convolution.json and
convolution.md.
"""

import sys

import beside
import strata
from beside import size_of

LAYOUTS = {"NCHW": "contiguous_format", "NHWC": "channels_last"}
# channels of both sides, size, kernel, stride
RESNET = {
    "7x7/2 3 -> 64, 224": (3, 64, 224, 7, 2),
    "1x1 64 -> 64, 56": (64, 64, 56, 1, 1),
    "3x3 64 -> 64, 56": (64, 64, 56, 3, 1),
    "1x1 64 -> 256, 56": (64, 256, 56, 1, 1),
    "1x1 256 -> 64, 56": (256, 64, 56, 1, 1),
    "3x3/2 128 -> 128, 56": (128, 128, 56, 3, 2),
    "1x1/2 256 -> 512, 56": (256, 512, 56, 1, 2),
    "3x3 128 -> 128, 28": (128, 128, 28, 3, 1),
    "1x1 128 -> 512, 28": (128, 512, 28, 1, 1),
    "1x1 512 -> 128, 28": (512, 128, 28, 1, 1),
    "3x3 256 -> 256, 14": (256, 256, 14, 3, 1),
    "1x1 256 -> 1024, 14": (256, 1024, 14, 1, 1),
    "1x1 1024 -> 256, 14": (1024, 256, 14, 1, 1),
    "3x3/2 512 -> 512, 14": (512, 512, 14, 3, 2),
    "3x3 512 -> 512, 7": (512, 512, 7, 3, 1),
    "1x1 512 -> 2048, 7": (512, 2048, 7, 1, 1),
    "1x1 2048 -> 512, 7": (2048, 512, 7, 1, 1),
}


def convolution(mode, c, o, size, kernel, stride, layout, n=64, groups=1, dtype="bfloat16"):
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    shapes = [(n, c, size, size), (o, c // groups, kernel, kernel), (n, o, out, out)]

    def make(s):
        big, weight, small = (s.laid_out(s.randn(*shape, dtype=dtype), LAYOUTS[layout]) for shape in shapes)
        lists = [[stride, stride], [padding, padding], [1, 1]]
        if mode == "forward":
            return lambda: s.m.nn.functional.conv2d(big, weight, None, *lists, groups)
        if s.m is not strata:
            wanted = [mode == "data", mode == "weight", False]
            return lambda: s.m.ops.aten.convolution_backward(
                small, big, weight, None, *lists, False, [0, 0], groups, wanted
            )
        if mode == "weight":
            grad = strata._C.ops["_convolution_weight_grad"]
            return lambda: grad(big, small, list(weight.shape), *lists, groups)
        extra = size - ((out - 1) * stride - 2 * padding + kernel)
        return lambda: strata._C.ops["convolution"](small, weight, None, *lists, True, [extra, extra], groups)

    flops = 2 * n * out * out * o * (c // groups) * kernel * kernel
    return flops, sum(a * b * h * w for a, b, h, w in shapes) * size_of(dtype), make


def with_relu(c, o, size, kernel, stride, layout, residual, n=64, dtype="bfloat16"):
    """relu(convolution + bias, + residual) in one op, beside the ops in turn."""
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    shapes = [(n, c, size, size), (o, c, kernel, kernel), (n, o, out, out)]

    def make(s):
        x, weight, other = (s.laid_out(s.randn(*shape, dtype=dtype), LAYOUTS[layout]) for shape in shapes)
        bias, f = s.randn(o, dtype=dtype), s.m.nn.functional
        if s.m is strata:
            return lambda: f.convolution_relu(x, weight, bias, other if residual else None, stride, padding)
        if residual:
            return lambda: s.m.relu_(f.conv2d(x, weight, bias, stride, padding).add_(other))
        return lambda: s.m.relu_(f.conv2d(x, weight, bias, stride, padding))

    size_all = sum(a * b * h * w for a, b, h, w in shapes) + residual * n * o * out * out
    return 2 * n * out * out * o * c * kernel * kernel, size_all * size_of(dtype), make


def norm_relu(c, size, layout, residual, train, n=64, dtype="bfloat16"):
    """relu(batch_norm + residual) in one op, beside the ops in turn; train: with the gradients."""

    def make(s):
        x, other, grad = (s.laid_out(s.randn(n, c, size, size, dtype=dtype), LAYOUTS[layout]) for _ in range(3))
        weight, bias, mean = (s.randn(c, dtype="float32") for _ in range(3))
        var, f = s.randn(c, dtype="float32").abs(), s.m.nn.functional
        for t in (x, other, weight, bias):
            t.requires_grad_(train)

        def forward():
            if s.m is strata:
                return f.batch_norm_relu(x, mean, var, weight, bias, other if residual else None, train)
            y = f.batch_norm(x, mean, var, weight, bias, train)
            return s.m.relu(y + other if residual else y)

        inputs = [x, weight, bias] + [other] * residual
        return (lambda: s.m.autograd.grad(forward(), inputs, grad)) if train else forward

    return 0, (2 + residual) * n * c * size * size * size_of(dtype), make


CASES = {
    f"relu bfloat16 {layout} {name}{', residual' * residual}": with_relu(*shape, layout, residual)
    for layout in LAYOUTS
    for name, shape in RESNET.items()
    for residual in (False, True)
    if shape[0] > 3 and (residual is False or shape[1] >= shape[0])
}
CASES |= {
    f"norm relu bfloat16 {layout} {c}, {size}{', residual' * residual}{', train' * train}": norm_relu(
        c, size, layout, residual, train
    )
    for layout in LAYOUTS
    for c, size in ((64, 56), (256, 56), (512, 28), (2048, 7))
    for residual in (False, True)
    for train in (False, True)
}
CASES |= {
    f"bfloat16 {layout} {name}, {mode}": convolution(mode, *shape, layout)
    for layout in LAYOUTS
    for name, shape in RESNET.items()
    for mode in ("forward", "data", "weight")
    if not (shape[0] == 3 and mode == "data")  # the gradient of the image is never needed
}
CASES |= {
    f"{dtype} {layout} {name}, {mode}": convolution(mode, *RESNET[name], layout, dtype=dtype)
    for dtype, layout in (("float16", "NHWC"), ("float32", "NCHW"))
    for name in ("3x3 64 -> 64, 56", "1x1 256 -> 64, 56", "3x3 256 -> 256, 14")
    for mode in ("forward", "data", "weight")
}
CASES |= {
    f"bfloat16 {layout} 3x3 depthwise 256, 28, {mode}": convolution(mode, 256, 256, 28, 3, 1, layout, groups=256)
    for layout in LAYOUTS
    for mode in ("forward", "data", "weight")
}
CASES |= {
    f"{dtype} {layout} 3x3 {c} -> {o}, {size}, {n} images, {mode}": convolution(
        mode, c, o, size, 3, 1, layout, n=n, dtype=dtype
    )
    for dtype, layout, n, c, o, size in (
        ("bfloat16", "NCHW", 1, 64, 64, 56),
        ("bfloat16", "NHWC", 1, 64, 64, 56),
        ("bfloat16", "NHWC", 2, 16, 16, 32),
        ("float32", "NCHW", 128, 1, 16, 28),
        ("float32", "NCHW", 128, 16, 32, 14),
        ("float32", "NCHW", 1, 64, 64, 56),
    )
    for mode in ("forward", "data", "weight")
}

if __name__ == "__main__":
    names = ["product_hopper_ahead", "cudnn_channels_last", "cudnn", "product_cublaslt", "product_hopper"]
    names += ["product_tensor_cores", "tensor_cores", "implicit_gemm_f32"]
    sys.exit(beside.main(__doc__, "convolution", "Convolutions", CASES, names, libraries=["cuDNN", "cuBLASLt"]))
