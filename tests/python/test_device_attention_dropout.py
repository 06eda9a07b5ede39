"""Dropout inside attention on a device: the mask is that of the op dropout on the matrix of weights with the same seed, result and
gradients against float64; replayed graphs draw anew; gradients of gradients."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from strata.nn import functional as F

ERRORS = {strata.bfloat16: 8e-3, strata.float16: 1.5e-3, strata.float32: 1e-5}  # relative, of a whole tensor
# batch, heads, rows, columns, width, value width; columns that are no multiple of 4 have draws across blocks
SIZES = [(2, 3, 5, 7, 16, 16), (1, 2, 70, 64, 64, 64), (2, 1, 33, 68, 128, 100), (1, 2, 40, 52, 256, 256)]
SIZES += [(2, 2, 65, 130, 64, 40), (1, 1, 129, 8, 24, 64), (1, 1, 1, 2, 8, 8)]


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def reference(q, k, v, g, factors, causal, mask):
    """The result and the gradients of q, k and v."""
    scale = q.shape[-1] ** -0.5
    s = q @ k.swapaxes(-1, -2) * scale
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    w = e / np.where(total == 0, 1, total)
    slope = (g @ v.swapaxes(-1, -2)) * factors
    ds = w * (slope - (slope * w).sum(-1, keepdims=True))
    dropped = w * factors
    return dropped @ v, ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, dropped.swapaxes(-1, -2) @ g


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ERRORS, ids=["bf16", "f16", "f32"])
@pytest.mark.parametrize(("kind", "p"), [("plain", 0.1), ("causal", 0.5), ("mask", 0.7), ("plain", 1.0)])
def test_against_float64(sizes, dtype, kind, p):
    b, h, rows, columns, width, value_width = sizes
    rng = np.random.default_rng(sum(sizes))

    def normal(*shape):
        return strata.tensor(rng.standard_normal(shape)).to(dtype).to(DEVICE)

    q, k, v = normal(b, h, rows, width), normal(b, h, columns, width), normal(b, h, columns, value_width)
    g = normal(b, h, rows, value_width)
    mask = rng.random((b, 1, rows, columns)) < 0.7 if kind == "mask" else None
    for t in (q, k, v):
        t.requires_grad_()
    strata.manual_seed(7)
    on_device = None if mask is None else strata.tensor(mask).to(DEVICE)
    y = F.scaled_dot_product_attention(q, k, v, on_device, p, kind == "causal")
    after = strata.rand(1).item()
    y.backward(g)
    strata.manual_seed(7)
    factors = wide(F.dropout(strata.ones(b, h, rows, columns), p))
    assert strata.rand(1).item() == after  # as many draws
    want = reference(*map(wide, (q, k, v, g)), factors, kind == "causal", mask)
    for got, exact in zip((y, q.grad, k.grad, v.grad), want, strict=True):
        assert np.isfinite(wide(got)).all()
        error = np.linalg.norm(wide(got) - exact)
        assert error <= ERRORS[dtype] * max(np.linalg.norm(exact), 0.1 * np.sqrt(exact.size)), (wide(got), exact)


def test_the_fused_kernel_is_taken():
    q = strata.ones(1, 2, 64, 64, dtype=strata.bfloat16, device=DEVICE)
    lines = strata.explain(lambda: F.scaled_dot_product_attention(q, q, q, dropout_p=0.1))
    assert ("_attention", "tensor_cores", "chosen; plan 64") in lines
    with strata.autocast(DEVICE, dtype=strata.bfloat16):
        lines = strata.explain(lambda: F.scaled_dot_product_attention(q.float(), q.float(), q.float(), dropout_p=0.1))
    assert ("_attention", "tensor_cores", "chosen; plan 64") in lines


def test_shared_heads_have_draws_of_their_own():
    q = strata.randn(2, 4, 6, 16, device=DEVICE, dtype=strata.bfloat16)
    k, v = (strata.randn(2, 2, 8, 16, device=DEVICE, dtype=strata.bfloat16) for _ in range(2))
    strata.manual_seed(1)
    shared = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, enable_gqa=True)
    strata.manual_seed(1)
    each = F.scaled_dot_product_attention(q, *(t.repeat_interleave(2, 1) for t in (k, v)), dropout_p=0.4)
    assert strata.equal(shared, each)


def test_gradients_of_gradients():
    given = [strata.randn(1, 1, 6, 4, device=DEVICE, dtype=strata.float64, requires_grad=True) for _ in range(3)]

    def seeded(*tensors):
        strata.manual_seed(5)
        return F.scaled_dot_product_attention(*tensors, dropout_p=0.4)

    assert strata.autograd.gradcheck(seeded, given)
    assert strata.autograd.gradgradcheck(seeded, given)


def test_a_replayed_graph_draws_anew():
    gpu = strata.cuda if DEVICE == "cuda" else strata.vgpu
    q = strata.randn(1, 2, 16, 16, device=DEVICE).to(strata.bfloat16)
    strata.manual_seed(2)
    eager = [F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).float().cpu().numpy() for _ in range(3)]
    graph = gpu.CUDAGraph()
    with gpu.graph(graph):
        out = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    strata.manual_seed(2)
    for want in eager:
        graph.replay()
        assert np.array_equal(out.float().cpu().numpy(), want)
    assert not np.array_equal(eager[0], eager[1])


@pytest.mark.parametrize("options", [{}, {"replay": True}], ids=["followed", "replayed"])
def test_compiled(options):
    q = strata.randn(1, 2, 9, 16, device=DEVICE).to(strata.bfloat16).requires_grad_()

    def attend(q):
        return F.scaled_dot_product_attention(q, q, q, dropout_p=0.3, is_causal=True)

    def run(f):
        strata.manual_seed(3)
        results = []
        for _ in range(5):
            y = f(q)
            y.float().sum().backward()
            results += [wide(y), wide(q.grad)]
            q.grad = None
        return results

    for want, got in zip(run(attend), run(strata.compile(attend, **options)), strict=True):
        assert np.array_equal(want, got)
