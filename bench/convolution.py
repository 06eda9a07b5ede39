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


CASES = {
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
