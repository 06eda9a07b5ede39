"""Products with weights of 8 and 4 bits: small integers exactly, normal numbers against float64, every kernel."""

import os

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional
GPU = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
HALVES = [strata.bfloat16, strata.float16]
DTYPES = [*HALVES, strata.float32, strata.float64]
ERRORS = {strata.bfloat16: 4e-3, strata.float16: 5e-4, strata.float32: 2e-6, strata.float64: 1e-14}
KERNELS = {"cpu": ["simd", "dequantized", "reference"], GPU: ["tensor_cores", "rows", "dequantized"]}
every_kernel = pytest.mark.parametrize(("device", "kernel"), [(d, k) for d in KERNELS for k in KERNELS[d]])


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def rounded(values, dtype):
    return strata.tensor(values).to(dtype).to(strata.float64).numpy()


def weights(rng, bits, n, k):
    """(q as numbers, the tensor)."""
    if bits == 8:
        q = rng.integers(-128, 128, (n, k))
        return q.astype(np.float64), strata.tensor(q.astype(np.int8))
    q = rng.integers(0, 16, (n, k))
    return q - 8.0, strata.pack_int4(strata.tensor(q))


def scales_of(rng, n, groups, dtype):
    """Powers of two, so that products stay exact."""
    shape = (n,) if groups is None else (n, groups)
    return strata.tensor(2.0 ** rng.integers(-2, 2, shape)).to(dtype)


def expected(x, q, scales, zeros=None):
    s = wide(scales)
    s = s[:, None] if s.ndim == 1 else s
    w = q * np.repeat(s, q.shape[1] // s.shape[1], axis=1)
    if zeros is not None:
        z = wide(zeros).reshape(s.shape)
        w = w + np.repeat(z, q.shape[1] // s.shape[1], axis=1)
    return wide(x) @ w.T


def product(bits, x, w, scales, zeros=None):
    return strata._weight_int8pack_mm(x, w, scales) if bits == 8 else strata._weight_int4_mm(x, w, scales, zeros)


def run(kernel, *args):
    """The result, and whether this kernel was chosen."""
    results = []
    _C._prefer_kernel(kernel)
    try:
        lines = strata.explain(lambda: results.append(product(*args)))
    finally:
        _C._prefer_kernel(None)
    return results[0], any(name == kernel and reason.startswith("chosen") for _, name, reason in lines)


@every_kernel
@pytest.mark.parametrize("bits", [8, 4])
def test_integers_are_exact(bits, device, kernel):
    rng = np.random.default_rng(bits)
    used = 0
    shapes = [
        (1, 64, 128, None),
        (8, 33, 256, 2),
        (3, 16, 128, 4),
        (17, 40, 64, 1),
        (33, 24, 128, 1),
        (64, 70, 64, 2),
        (70, 5, 32, 1),
    ]
    for dtype in DTYPES:
        for m, n, k, groups in shapes:
            q, w = weights(rng, bits, n, k)
            x = strata.tensor(rng.integers(-2, 3, (m, k)).astype(np.float64)).to(dtype).to(device)
            scales = scales_of(rng, n, groups, dtype)
            zeros = scales_of(rng, n, groups, dtype) if bits == 4 and m % 2 else None
            y, chosen = run(
                kernel, bits, x, w.to(device), scales.to(device), None if zeros is None else zeros.to(device)
            )
            used += chosen
            assert y.dtype == dtype and y.device.type == device and y.shape == (m, n)
            np.testing.assert_array_equal(wide(y), rounded(expected(x, q, scales, zeros), dtype))
    assert used >= 4


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("bits", [8, 4])
def test_random_sizes_and_alignments(bits, device):
    rng = np.random.default_rng(10 + bits)
    for trial in range(40):
        m, n, groups = int(rng.integers(0, 20)), int(rng.integers(0, 40)), int(rng.integers(1, 5))
        k = groups * int(rng.integers(0, 40)) * (bits == 4 and 2 or 1)
        dtype = DTYPES[trial % 4]
        q, w = weights(rng, bits, n, k)
        x = strata.tensor(rng.integers(-2, 3, (m, k)).astype(np.float64)).to(dtype)
        scales = scales_of(rng, n, groups if trial % 3 else None, [dtype, strata.float32][trial % 2])
        zeros = scales_of(rng, n, groups if trial % 3 else None, dtype) if bits == 4 and trial % 2 else None
        want = rounded(expected(x, q, scales, zeros) if k else np.zeros((m, n)), dtype)
        x, w, scales, zeros = (None if t is None else t.to(device) for t in (x, w, scales, zeros))
        np.testing.assert_array_equal(wide(product(bits, x, w, scales, zeros)), want)
        # The same values with other strides and addresses.
        x = strata.cat([x[:, :0], x.new_zeros(m, 1), x], 1)[:, 1:] if trial % 2 else x.t().contiguous().t()
        w = w.t().contiguous().t() if trial % 3 else strata.cat([w, w], 1)[:, : w.shape[1]]
        scales = scales if scales.dim() == 1 else scales.t().contiguous().t()
        np.testing.assert_array_equal(wide(product(bits, x, w, scales, zeros)), want)


@every_kernel
@pytest.mark.parametrize("bits", [8, 4])
def test_normal_numbers(bits, device, kernel):
    rng = np.random.default_rng(20 + bits)
    for dtype in DTYPES:
        q, w = weights(rng, bits, 48, 512)
        x = strata.tensor(rng.standard_normal((6, 512))).to(dtype)
        scales = strata.tensor(rng.random((48, 4)) * 0.1).to(dtype)
        zeros = strata.tensor(rng.standard_normal((48, 4))).to(dtype) if bits == 4 else None
        want = expected(x, q, scales, zeros)
        y, _ = run(kernel, bits, *(None if t is None else t.to(device) for t in (x, w, scales, zeros)))
        bound = ERRORS[dtype] * (3 if kernel == "dequantized" else 1)  # there the weights are rounded, too
        assert np.linalg.norm(wide(y) - want) <= bound * np.linalg.norm(want)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_packing(device):
    q = strata.tensor(np.random.default_rng(1).integers(0, 16, (5, 6))).to(device)
    packed = strata.pack_int4(q)
    assert packed.dtype == strata.uint8 and packed.shape == (5, 3)
    values = q.cpu().numpy()
    np.testing.assert_array_equal(packed.cpu().numpy(), values[:, ::2] * 16 + values[:, 1::2])
    np.testing.assert_array_equal(strata.unpack_int4(packed).cpu().numpy(), values)


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float32], ids=str)
def test_quantized_linear(dtype, device):
    rng = np.random.default_rng(30)
    weight = strata.tensor(rng.standard_normal((40, 256))).to(dtype).to(device)
    x, bias = (strata.tensor(rng.standard_normal(s)).to(dtype).to(device) for s in ((2, 3, 256), (40,)))
    want = wide(x) @ wide(weight).T + wide(bias)
    for group in (0, 64):
        q, scales = strata.quantize_int8(weight, group)
        assert q.dtype == strata.int8 and scales.shape == ((40, 4) if group else (40,)) and scales.dtype == dtype
        y = F.linear_int8(x, q, scales, bias)
        assert y.shape == (2, 3, 40)
        assert np.linalg.norm(wide(y) - want) <= 0.012 * np.linalg.norm(want)
    packed, scales, zeros = strata.quantize_int4(weight, 32)
    assert packed.shape == (40, 128) and scales.shape == zeros.shape == (40, 8)
    y = F.linear_int4(x, packed, scales, zeros, bias)
    assert np.linalg.norm(wide(y) - want) <= 0.12 * np.linalg.norm(want)
    # Each weight is off by half a step at most.
    back = F.linear_int4(strata.eye(256, dtype=strata.float64), packed.cpu(), scales.cpu(), zeros.cpu()).numpy().T
    step = np.repeat(wide(scales), 32, axis=1)
    assert (np.abs(back - wide(weight)) <= 0.6 * step).all()


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_names_of_pytorch(device):
    rng = np.random.default_rng(40)
    q = rng.integers(0, 16, (16, 64))
    x = strata.tensor(rng.integers(-2, 3, (5, 64)).astype(np.float32)).to(strata.bfloat16).to(device)
    both = strata.tensor(2.0 ** rng.integers(-2, 2, (2, 16, 2))).to(strata.bfloat16).to(device)
    for tiles in (2, 4):
        packed = strata._convert_weight_to_int4pack(strata.pack_int4(strata.tensor(q)).to(device), tiles)
        assert packed.shape == (2, 64 // (16 * tiles), 32, tiles // 2) and packed.dtype == strata.int32
        y = strata._weight_int4pack_mm(x, packed, 32, both)
        w = (q - 8) * np.repeat(wide(both)[:, :, 0].T, 32, axis=1) + np.repeat(wide(both)[:, :, 1].T, 32, axis=1)
        np.testing.assert_array_equal(wide(y), rounded(wide(x) @ w.T, strata.bfloat16))


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("bits", [8, 4])
def test_gradients(bits, device):
    rng = np.random.default_rng(50)
    _, w = weights(rng, bits, 4, 6)
    x, scales, zeros = (
        strata.tensor(rng.standard_normal(s)).to(device).requires_grad_() for s in ((3, 6), (4, 3), (4, 3))
    )
    w = w.to(device)
    if bits == 8:
        assert strata.autograd.gradcheck(lambda x, s: strata._weight_int8pack_mm(x, w, s), (x, scales))
    else:
        assert strata.autograd.gradcheck(lambda x, s, z: F.linear_int4(x, w, s, z), (x, scales, zeros))


def test_explain_gives_reasons():
    x = strata.ones(4, 64, dtype=strata.bfloat16, device=GPU)
    w, scales = strata.ones(8, 64, dtype=strata.int8, device=GPU), strata.ones(8, device=GPU)
    lines = strata.explain(strata._weight_int8pack_mm, x, w, scales)
    assert lines[-1][1:] == ("tensor_cores", "chosen")
    lines = strata.explain(strata._weight_int8pack_mm, x.float(), w, scales)
    assert lines[0][1:] == ("tensor_cores", "for float16 and bfloat16") and lines[-1][1] == "rows"


def test_bad_input():
    x, w, scales = strata.ones(2, 8), strata.ones(4, 8, dtype=strata.int8), strata.ones(4)
    for call, error, text in [
        (lambda: strata._weight_int8pack_mm(x, w.float(), scales), RuntimeError, "the weight must be int8"),
        (lambda: strata._weight_int8pack_mm(x, w[:, :6], scales), RuntimeError, "has 6 per row"),
        (lambda: strata._weight_int8pack_mm(x, w, scales.int()), RuntimeError, "floating-point"),
        (lambda: strata._weight_int8pack_mm(x, w, strata.ones(4, 0)), RuntimeError, "0 groups"),
        (lambda: strata._weight_int8pack_mm(x.int(), w, scales), NotImplementedError, "not implemented for .int32."),
        (lambda: strata._weight_int8pack_mm(x.to(GPU), w, scales), RuntimeError, "device"),
        (lambda: strata._weight_int4_mm(x, w, scales), RuntimeError, "see pack_int4"),
        (lambda: strata.pack_int4(strata.tensor([[1, 16]])), ValueError, "found 1 to 16"),
        (lambda: strata.pack_int4(strata.tensor([[-1, 1]])), ValueError, "found -1 to 1"),
        (lambda: strata.quantize_int4(x, 3), RuntimeError, "must divide the 8 columns"),
        (lambda: strata._convert_weight_to_int4pack(w, 2), RuntimeError, "expected a uint8 matrix"),
    ]:
        with pytest.raises(error, match=text):
            call()
