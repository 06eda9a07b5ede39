"""Special matrix products beside PyTorch on one GPU: gemm_library.py [--cases REGEX] [--rounds 7] [--entries] [--out DIR].

Products with an epilogue of strata.gemm.compile, beside PyTorch's ops in turn; products with weights of 8 and 4 bits, and of groups. See beside.py for how times are measured.
Results go to gemm_library.json and gemm_library.md.
"""

import sys

import beside
from beside import size_of, with_tf32

KERNELS = {}  # compiled once for all sets of inputs


def with_epilogue(m, n, k, epilogue, in_turn, dtype="bfloat16", right="t", **settings):
    """epilogue of a @ b with bias[n] and residual[m, n]; in_turn(torch, product, bias, residual): the same by ops."""

    def make(s):
        a = s.randn(m, k, dtype=dtype)
        b = s.randn(k, n, dtype=dtype) if right == "n" else s.randn(n, k, dtype=dtype).t()
        given = {"bias": s.randn(n, dtype=dtype), "residual": s.randn(m, n, dtype=dtype)}
        if not hasattr(s.m, "gemm"):
            return lambda: in_turn(s.m, s.m.mm(a, b), given["bias"], given["residual"])
        key = (dtype, epilogue, *settings.items())
        if key not in KERNELS:
            KERNELS[key] = s.m.gemm.compile(getattr(s.m, dtype), epilogue, **settings)
        kernel = KERNELS[key]
        extras = {name: given[name] for name in kernel.extras}
        return lambda: kernel(a, b, **extras)

    return 2 * m * n * k, (m * k + k * n + m * n) * size_of(dtype), make


def relu(t, product, bias, residual):
    return t.relu(product + bias)


def gelu_residual(t, product, bias, residual):
    return t.nn.functional.gelu(product + bias) + residual


def of_type(m, n, k, dtype, **settings):
    """a @ b.t() of int8, float8 or TF32 by gemm.compile, beside PyTorch's _int_mm, _scaled_mm and mm with TF32."""

    def make(s):
        a, b = (s.randn(rows, k, dtype="float32") for rows in (m, n))
        if dtype == "int8":
            a, b = ((x * 30).clamp(-127, 127).to(s.m.int8) for x in (a, b))
        elif dtype != "float32":
            a, b = (x.to(getattr(s.m, dtype)) for x in (a, b))
        if hasattr(s.m, "gemm"):
            key = (dtype, *settings.items())
            if key not in KERNELS:
                KERNELS[key] = s.m.gemm.compile(getattr(s.m, dtype), **settings)
            return lambda: KERNELS[key](a, b.t())
        if dtype == "int8":
            return lambda: s.m._int_mm(a, b.t())
        if dtype == "float32":
            return with_tf32(s.m, lambda: s.m.mm(a, b.t()))
        one = s.m.ones((), device="cuda")
        return lambda: s.m._scaled_mm(a, b.t(), one, one, out_dtype=s.m.bfloat16, use_fast_accum=True)

    size = 4 if dtype == "float32" else 1
    return 2 * m * n * k, (m * k + k * n) * size + m * n * 4, make


def activated(m, n, k, activation, dtype="bfloat16", train=False):
    """linear_activation beside linear and the activation in turn."""

    def make(s):
        x, w, b = s.randn(m, k, dtype=dtype), s.randn(n, k, dtype=dtype), s.randn(n, dtype=dtype)
        for t in (x, w, b):
            t.requires_grad_(train)
        if hasattr(s.m, "gemm"):
            return lambda: s.m.nn.functional.linear_activation(x, w, b, activation)
        f = {"relu": s.m.relu, "silu": s.m.nn.functional.silu, "gelu": s.m.nn.functional.gelu}.get(activation)
        f = f or (lambda t: s.m.nn.functional.gelu(t, approximate="tanh"))
        return lambda: f(s.m.nn.functional.linear(x, w, b))

    return 2 * m * n * k, (m * k + k * n + m * n) * size_of(dtype), make


def weight_only(rows, inputs, outputs, bits, dtype="bfloat16", group=128):
    """Weights of 8 or 4 bits; PyTorch's own products of that kind, on packed weights."""

    def make(s):
        x = s.randn(rows, inputs, dtype=dtype)
        if bits == 8:
            q = s.randn(outputs, inputs, dtype="float32").mul(30).clamp(-127, 127).to(s.m.int8)
            scales = s.randn(outputs, dtype=dtype).abs()
            return lambda: s.m._weight_int8pack_mm(x, q, scales)
        q = s.randn(outputs, inputs // 2, dtype="float32").mul(60).clamp(-127, 127).add(128).to(s.m.uint8)
        both = s.randn(inputs // group, outputs, 2, dtype=dtype)
        packed = s.m._convert_weight_to_int4pack(q, 8)
        return lambda: s.m._weight_int4pack_mm(x, packed, group, both)

    return 2 * rows * inputs * outputs, inputs * outputs * bits // 8, make


def grouped(tokens, groups, inputs, outputs, kind="rows", dtype="bfloat16"):
    """Mixtures of experts: the forward product, or the gradient of the matrices ("depth")."""

    def make(s):
        offs = s.m.arange(1, groups + 1, device="cuda").mul(tokens // groups).to(s.m.int32)
        x = s.randn(tokens, inputs, dtype=dtype)
        if kind == "depth":
            g = s.randn(tokens, outputs, dtype=dtype)
            return lambda: s.m._grouped_mm(x.t(), g, offs)
        w = s.randn(groups, outputs, inputs, dtype=dtype).transpose(1, 2)
        return lambda: s.m._grouped_mm(x, w, offs)

    size = (tokens * inputs + groups * inputs * outputs + tokens * outputs) * size_of(dtype)
    return 2 * tokens * inputs * outputs, size, make


CASES = {
    "own bf16 4096^3": with_epilogue(4096, 4096, 4096, "acc", lambda t, p, b, r: p),
    "own bf16 4096^3, 128x256x32": with_epilogue(
        4096, 4096, 4096, "acc", lambda t, p, b, r: p, tile=(128, 256, 32), warps=(2, 4)
    ),
    "own bf16 4096^3, 128x128x64, 3 stages": with_epilogue(
        4096, 4096, 4096, "acc", lambda t, p, b, r: p, tile=(128, 128, 64), stages=3
    ),
    "own bf16 4096^3, b by rows": with_epilogue(4096, 4096, 4096, "acc", lambda t, p, b, r: p, right="n"),
    "own bf16 4097^3": with_epilogue(4097, 4097, 4097, "acc", lambda t, p, b, r: p),
    "own bf16 8192x768x3072 + bias, ReLU": with_epilogue(8192, 768, 3072, "relu(acc + bias[n])", relu),
    "own bf16 8192x3072x768 + bias, GELU, + residual": with_epilogue(
        8192, 3072, 768, "gelu(acc + bias[n]) + residual[m, n]", gelu_residual
    ),
    "own bf16 8192x3072x768 + bias, GELU": with_epilogue(
        8192, 3072, 768, "gelu(acc + bias[n])", lambda t, p, b, r: t.nn.functional.gelu(p + b)
    ),
    "own bf16 8192x3072x768 + bias, GELU, two results": with_epilogue(
        8192, 3072, 768, ("gelu(acc + bias[n])", "acc + bias[n]"), lambda t, p, b, r: t.nn.functional.gelu(p + b)
    ),
    "own bf16 4096^3 + residual": with_epilogue(4096, 4096, 4096, "acc + residual[m, n]", lambda t, p, b, r: p + r),
    "own bf16 4096^3, amax": with_epilogue(4096, 4096, 4096, "acc", lambda t, p, b, r: p.abs().max(), amax=True),
    "own int8 4096^3": of_type(4096, 4096, 4096, "int8"),
    "own f8 4096^3": of_type(4096, 4096, 4096, "float8_e4m3fn"),
    "own tf32 4096^3": of_type(4096, 4096, 4096, "float32", tf32=True),
    "own f32 2048^3 + bias, ReLU": with_epilogue(
        2048, 2048, 2048, "relu(acc + bias[n])", relu, "float32", tile=(128, 128, 16)
    ),
}


for activation in ("relu", "gelu", "gelu_tanh", "silu"):
    CASES[f"linear bf16 8192x768 -> 3072, {activation}"] = activated(8192, 3072, 768, activation)
CASES["linear bf16 4096^3, gelu"] = activated(4096, 4096, 4096, "gelu")
CASES["linear bf16 16x4096 -> 11008, silu"] = activated(16, 11008, 4096, "silu")
CASES["linear bf16 8192x768 -> 3072, gelu, with a gradient"] = activated(8192, 3072, 768, "gelu", train=True)


for rows in (1, 4, 16, 64):
    for bits in (8, 4):
        CASES[f"int{bits} weights, bf16 linear {rows}x4096 -> 4096"] = weight_only(rows, 4096, 4096, bits)
        CASES[f"int{bits} weights, bf16 linear {rows}x4096 -> 11008"] = weight_only(rows, 4096, 11008, bits)


for tokens, groups, inputs, outputs in ((8192, 8, 4096, 1792), (8192, 64, 2048, 1408), (256, 64, 2048, 1408)):
    size = f"{tokens} tokens, {groups} groups of {inputs}x{outputs}"
    CASES[f"grouped bf16 {size}"] = grouped(tokens, groups, inputs, outputs)
    CASES[f"grouped bf16 {size}, gradient of the matrices"] = grouped(tokens, groups, inputs, outputs, "depth")


if __name__ == "__main__":
    sys.exit(
        beside.main(
            __doc__, "gemm_library", "Special matrix products", CASES, ["tensor_cores", "rows"], libraries=["cuBLASLt"]
        )
    )
