"""Matrix products beside PyTorch on one GPU: gemm.py [--cases REGEX] [--rounds 7] [--entries] [--out DIR].

See beside.py for how times are measured. Results go to gemm.json and gemm.md.
"""

import sys

import beside
from beside import size_of, with_tf32


def product(m, n, k, dtype="bfloat16", left="n", right="n", tf32=False):
    """m x k times k x n; "t": the factor is a transposed view."""

    def make(s):
        def factor(rows, columns, order):
            return s.randn(rows, columns, dtype=dtype) if order == "n" else s.randn(columns, rows, dtype=dtype).t()

        a, b = factor(m, k, left), factor(k, n, right)
        call = lambda: s.m.mm(a, b)  # noqa: E731
        return with_tf32(s.m, call) if tf32 else call

    return 2 * m * n * k, (m * k + k * n + m * n) * size_of(dtype), make


def linear(rows, inputs, outputs, dtype="bfloat16"):
    def make(s):
        x, w, b = (
            s.randn(rows, inputs, dtype=dtype),
            s.randn(outputs, inputs, dtype=dtype),
            s.randn(outputs, dtype=dtype),
        )
        return lambda: s.m.nn.functional.linear(x, w, b)

    size = (rows * inputs + inputs * outputs + rows * outputs) * size_of(dtype)
    return 2 * rows * inputs * outputs, size, make


def vector(m, k, dtype="bfloat16"):
    def make(s):
        a, x = s.randn(m, k, dtype=dtype), s.randn(k, dtype=dtype)
        return lambda: s.m.mv(a, x)

    return 2 * m * k, m * k * size_of(dtype), make


def batch(count, m, n, k, dtype="bfloat16", right="n"):
    def make(s):
        a = s.randn(count, m, k, dtype=dtype)
        b = s.randn(count, k, n, dtype=dtype) if right == "n" else s.randn(count, n, k, dtype=dtype).transpose(1, 2)
        return lambda: s.m.bmm(a, b)

    return 2 * count * m * n * k, count * (m * k + k * n + m * n) * size_of(dtype), make


def heads(b, h, t, d, dtype="bfloat16"):
    """Scores of attention from [batch, time, heads, width] without copies on our side."""

    def make(s):
        q, k = (s.randn(b, t, h, d, dtype=dtype).transpose(1, 2) for _ in range(2))
        return lambda: s.m.matmul(q, k.transpose(-2, -1))

    return 2 * b * h * t * t * d, b * h * (2 * t * d + t * t) * size_of(dtype), make


def integers(m, n, k, right="t"):
    def make(s):
        a, b = s.randn(m, k, dtype="float32"), s.randn(*((k, n) if right == "n" else (n, k)), dtype="float32")
        a, b = (x.mul(30).clamp(-127, 127).to(s.m.int8) for x in (a, b))
        b = b if right == "n" else b.t()
        return lambda: s.m._int_mm(a, b)

    return 2 * m * n * k, m * k + k * n + 4 * m * n, make


def float8(m, n, k, by_rows=False, fast=True):
    def make(s):
        a, b = (s.randn(rows, k, dtype="float32").to(s.m.float8_e4m3fn) for rows in (m, n))
        one = s.randn(m if by_rows else 1, 1, dtype="float32").abs()
        other = s.randn(1, n if by_rows else 1, dtype="float32").abs()
        return lambda: s.m._scaled_mm(a, b.t(), one, other, out_dtype=s.m.bfloat16, use_fast_accum=fast)

    return 2 * m * n * k, m * k + k * n + 2 * m * n, make


CASES = {f"bf16 {n}^3": product(n, n, n) for n in (512, 1024, 2048, 4096, 8192)}
CASES |= {
    "bf16 4097^3": product(4097, 4097, 4097),
    "bf16 4096^3, b transposed": product(4096, 4096, 4096, right="t"),
    "bf16 4096^3, a transposed": product(4096, 4096, 4096, left="t"),
    "bf16 4096^3, both transposed": product(4096, 4096, 4096, left="t", right="t"),
    "f16 4096^3": product(4096, 4096, 4096, "float16"),
    "bf16 linear 16x4096 -> 4096": linear(16, 4096, 4096),
    "bf16 linear 1x4096 -> 4096": linear(1, 4096, 4096),
    "bf16 linear 64x4096 -> 4096": linear(64, 4096, 4096),
    "bf16 linear 128x4096 -> 11008": linear(128, 4096, 11008),
    "bf16 linear 8192x768 -> 3072": linear(8192, 768, 3072),
    "bf16 linear 8192x3072 -> 768": linear(8192, 3072, 768),
    "bf16 linear 2048x768 -> 50257": linear(2048, 768, 50257),
    "bf16 weight gradient 3072x768, 8192 rows": product(3072, 768, 8192, left="t"),
    "bf16 3000x1000x2000": product(3000, 1000, 2000),
    "bf16 1023x1025x1027": product(1023, 1025, 1027),
    "bf16 257x259x263": product(257, 259, 263),
    "bf16 513x8192x1023": product(513, 8192, 1023),
    "bf16 16x4095x4095": product(16, 4095, 4095),
    "bf16 4096x4096x64": product(4096, 4096, 64),
    "bf16 5000x300x7000": product(5000, 300, 7000),
    "bf16 64x64x65536": product(64, 64, 65536),
    "bf16 128x256x16384, a transposed": product(128, 256, 16384, left="t"),
    "bf16 256x256x4096": product(256, 256, 4096),
    "bf16 bmm 4096 of 64^3": batch(4096, 64, 64, 64),
    "bf16 bmm 256 of 32x48x512": batch(256, 32, 48, 512),
    "bf16 bmm 512 of 128^3": batch(512, 128, 128, 128),
    "bf16 bmm 96 of 1024x1024x64, b transposed": batch(96, 1024, 1024, 64, right="t"),
    "bf16 scores 8x12x1024x64": heads(8, 12, 1024, 64),
    "bf16 mv 8192x8192": vector(8192, 8192),
    "bf16 linear 4096x1024 -> 10": linear(4096, 1024, 10),
    "bf16 mv 1024x65536": vector(1024, 65536),
    "f32 linear 1x4096 -> 4096": linear(1, 4096, 4096, "float32"),
    "f32 mv 8192x8192": vector(8192, 8192, "float32"),
    "f32 1024^3": product(1024, 1024, 1024, "float32"),
    "f32 4096^3": product(4096, 4096, 4096, "float32"),
    "f32 4096^3, TF32": product(4096, 4096, 4096, "float32", tf32=True),
    "f32 4096^3, TF32, b transposed": product(4096, 4096, 4096, "float32", right="t", tf32=True),
    "f32 linear 128x3136 -> 128": linear(128, 3136, 128, "float32"),
    "f64 2048^3": product(2048, 2048, 2048, "float64"),
    "f8 4096^3": float8(4096, 4096, 4096),
    "f8 4096^3, exact sums": float8(4096, 4096, 4096, fast=False),
    "f8 4096^3, scales of rows": float8(4096, 4096, 4096, by_rows=True),
    "f8 8192^3": float8(8192, 8192, 8192),
    "f8 8192x3072x768": float8(8192, 3072, 768),
    "f8 1024^3": float8(1024, 1024, 1024),
    "f8 16x4096x4096": float8(16, 4096, 4096),
    "f8 3008x1008x2000": float8(3008, 1008, 2000),
    "int8 4096^3": integers(4096, 4096, 4096),
    "int8 4096^3, b by rows": integers(4096, 4096, 4096, right="n"),
    "int8 8192^3": integers(8192, 8192, 8192),
    "int8 1024^3": integers(1024, 1024, 1024),
    "int8 32x4096x4096": integers(32, 4096, 4096),
    "int8 3008x1008x2000": integers(3008, 1008, 2000),
}


if __name__ == "__main__":
    names = [
        "matrix_vector",
        "hopper",
        "hopper_in_parts",
        "hopper_tf32",
        "cublaslt_tf32",
        "cublaslt",
        "tensor_cores_in_parts",
        "tensor_cores",
    ]
    sys.exit(beside.main(__doc__, "gemm", "Matrix products", CASES, names, libraries=["cuBLASLt"]))
