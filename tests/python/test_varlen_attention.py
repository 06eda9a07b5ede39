"""varlen_attn: sequences of different lengths and sliding windows, each kernel by itself, with gradients, against float64."""

import os

import numpy as np
import pytest
import strata
from strata import _C
from strata.nn import functional as F

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_CARD = DEVICE == "cuda"
ERRORS = {strata.bfloat16: 8e-3, strata.float16: 1.5e-3, strata.float32: 1e-5, strata.float64: 1e-12}
WINDOWS = [(-1, -1), (-1, 0), (5, 0), (0, 0), (3, 2), (0, 70), (1000, 1000)]
# The lengths of queries and keys of each sequence.
BATCHES = {
    "one": ([5], [5]),
    "ones": ([1, 1], [1, 1]),
    "empty": ([0, 3, 0], [2, 0, 0]),
    "odd": ([70, 1, 0, 33], [70, 1, 0, 33]),
    "crossed": ([7, 66, 3], [90, 5, 3]),
}
if ON_CARD:
    BATCHES["long"] = ([1000, 17, 2049, 0, 512], [1000, 900, 2049, 5, 64])
    WINDOWS += [(256, 0), (300, 17)]


def starts(lengths, dtype=strata.int32):
    return strata.tensor(np.concatenate([[0], np.cumsum(lengths)])).to(dtype)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def reference(q, k, v, g, lengths, window, scale):
    """The result, the gradients of q, k, v and the logarithms, in float64. Heads are those of the query."""
    times = q.shape[1] // k.shape[1]
    out, logs = np.zeros((*q.shape[:2], v.shape[-1])), np.full((q.shape[1], q.shape[0]), -np.inf)
    grads = [np.zeros_like(t) for t in (q, k, v)]
    rows = columns = 0
    for m, n in zip(*lengths, strict=True):
        i, j = np.arange(m)[:, None] + n - m, np.arange(n)
        seen = np.ones((m, n), bool)
        if window[0] >= 0:
            seen &= j >= i - window[0]
        if window[1] >= 0:
            seen &= j <= i + window[1]
        for h in range(q.shape[1]):
            qs, gs = q[rows : rows + m, h], g[rows : rows + m, h]
            ks, vs = k[columns : columns + n, h // times], v[columns : columns + n, h // times]
            s = np.where(seen, qs @ ks.T * scale, -np.inf)
            top = s.max(-1, keepdims=True, initial=-np.inf)
            e = np.exp(s - np.where(np.isinf(top), 0, top))
            total = e.sum(-1, keepdims=True)
            w = e / np.where(total == 0, 1, total)
            slope = gs @ vs.T
            ds = w * (slope - (slope * w).sum(-1, keepdims=True)) * scale
            out[rows : rows + m, h] = w @ vs
            with np.errstate(divide="ignore"):
                logs[h, rows : rows + m] = (top + np.log(total))[:, 0]
            grads[0][rows : rows + m, h] = ds @ ks
            grads[1][columns : columns + n, h // times] += ds.T @ qs
            grads[2][columns : columns + n, h // times] += w.T @ gs
        rows, columns = rows + m, columns + n
    return out, *grads, logs


def near(got, want, dtype):
    got = wide(got)
    assert got.shape == want.shape
    finite = np.isfinite(want)
    assert (np.isfinite(got) == finite).all() and (got[~finite] == want[~finite]).all()
    got, want = got[finite], want[finite]
    error = np.linalg.norm(got - want)
    assert error <= ERRORS[dtype] * max(np.linalg.norm(want), 0.1 * np.sqrt(want.size)), error


def check(lengths, window, dtype, device, heads=2, shared=None, width=16, values=None, scale=None, kernel=None, seed=0):
    rng = np.random.default_rng(seed)
    shared, values = shared or heads, values or width
    rows, columns = map(sum, lengths)
    shapes = [(rows, heads, width), (columns, shared, width), (columns, shared, values), (rows, heads, values)]
    q, k, v, g = (strata.tensor(rng.standard_normal(s)).reshape(s).to(dtype).to(device) for s in shapes)
    leaves = [t.requires_grad_() for t in (q, k, v)]
    cu = [starts(n).to(device) for n in lengths]
    made = []

    def run():
        longest = [max(n) for n in lengths]
        out, logs = _C.ops["_varlen_attn"](*leaves, *cu, *longest, scale, list(window), heads != shared)
        made.extend([out, *strata.autograd.grad(out, leaves, g), logs])

    lines = strata.explain(run)
    if kernel:
        chosen = [name for op, name, why in lines if op.startswith("_varlen_attention") and why.startswith("chosen")]
        assert chosen == [kernel, kernel], lines
    assert made[0].is_contiguous()
    factor = width**-0.5 if scale is None else scale
    for got, want in zip(made, reference(*map(wide, (q, k, v, g)), lengths, window, factor), strict=True):
        near(got, want, dtype)
    assert (made[-1].dtype == strata.float64) == (dtype == strata.float64)
    return lines


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
def test_cpu(dtype, window, lengths):
    check(lengths, window, dtype, "cpu", heads=4, shared=2, width=9, values=5)


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16], ids=str)
def test_tensor_cores(dtype, window, lengths):
    check(lengths, window, dtype, DEVICE, heads=2 if ON_CARD else 1, kernel="tensor_cores")


@pytest.mark.parametrize("width,values", [(8, 8), (64, 40), (20, 13), (128, 128), (72, 100), (256, 256), (130, 16)])
def test_widths_and_shared_heads(width, values):
    lengths = ([33, 1], [40, 17])
    for window in ((-1, 0), (9, 4)):
        check(lengths, window, strata.bfloat16, DEVICE, 2, 1, width, values, kernel="tensor_cores")
    check(lengths, (-1, -1), strata.float16, DEVICE, 2, 1, width, values, 0.7, "tensor_cores")


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("dtype", [strata.float32, strata.float64], ids=str)
def test_padded_by_other_ops(dtype, lengths):
    for window in ((-1, -1), (-1, 0), (3, 2)):
        check(lengths, window, dtype, DEVICE, 4, 2, kernel="ops")


def test_every_block_of_a_long_window():
    # 300 keys are several blocks of the CPU and tiles of the device: some are whole, some are cut, some are skipped.
    for seed, window in enumerate([(40, 0), (0, 40), (100, 100), (511, 3)]):
        lengths = ([600, 20], [600, 90]) if ON_CARD else ([200], [200])
        check(lengths, window, strata.float32, "cpu", 1, seed=seed)
        check(lengths, window, strata.bfloat16, DEVICE, 1, seed=seed)
    check(([700], [1200]), (520, 300), strata.float64, "cpu", 1)


def test_explain_says_why_hopper_is_not_used():
    lines = check(([3, 4], [3, 4]), (-1, 0), strata.bfloat16, DEVICE)
    reasons = {why for op, name, why in lines if op == "_varlen_attention" and name == "hopper"}
    assert reasons == {"for sequences of equal lengths without a window"}


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_equal_lengths_are_plain_attention(device):
    x = strata.randn(3, 40, 3, 2, 16, dtype=strata.bfloat16).to(device)
    q, k, v = (x[:, :, i] for i in range(3))
    want = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True).transpose(1, 2)
    cu = starts([40] * 3).to(device)
    got = F.varlen_attn(*(t.flatten(0, 1) for t in (q, k, v)), cu, cu, 40, 40, window_size=[-1, 0])
    assert np.abs(wide(got) - wide(want.flatten(0, 1))).max() < 0.02


def test_whole_numbers_are_exact():
    # All scores are 0, so each weight is 1 / 4 with a window of four keys; the values are whole numbers.
    for device, dtype in (("cpu", strata.float32), (DEVICE, strata.bfloat16), (DEVICE, strata.float16)):
        v = np.random.default_rng(5).integers(-8, 9, (37, 1, 8))
        zeros = strata.zeros(37, 1, 8, dtype=dtype, device=device)
        cu = starts([37]).to(device)
        got = F.varlen_attn(zeros, zeros, strata.tensor(v).to(device, dtype), cu, cu, 37, 37, window_size=[3, 0])
        want = np.stack([v[i - 3 : i + 1].mean(0) for i in range(3, 37)])
        assert (wide(got)[3:] == want).all()


def test_gradcheck():
    shapes = ((6, 4, 3), (7, 2, 3), (7, 2, 3))
    q, k, v = (strata.randn(*s, dtype=strata.float64).requires_grad_() for s in shapes)
    cu = [starts([2, 0, 4]), starts([3, 1, 3])]
    for window in ([-1, -1], [1, 0]):
        f = lambda *t, w=window: F.varlen_attn(*t, *cu, 4, 3, window_size=w, enable_gqa=True)  # noqa: E731
        assert strata.autograd.gradcheck(f, [q, k, v])
        assert strata.autograd.gradgradcheck(f, [q, k, v])


def test_gradients_of_gradients_are_those_of_the_cpu():
    found = []
    values = [np.random.default_rng(i).standard_normal((5, 2, 8)) for i in range(4)]
    for device in ("cpu", DEVICE):
        q, k, v, g = (strata.tensor(x).to(device).requires_grad_() for x in values)
        cu = starts([2, 3]).to(device)
        out = F.varlen_attn(q, k, v, cu, cu, 3, 3, window_size=[1, 0])
        grads = strata.autograd.grad(out, [q, k, v], g, create_graph=True)
        found.append(strata.autograd.grad(sum((x * x).sum() for x in grads), [q, k, v, g]))
    for a, b in zip(*found, strict=True):
        assert np.allclose(wide(a), wide(b), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", [strata.float32, strata.bfloat16], ids=str)
@pytest.mark.parametrize(
    "cu,longest", [([0, 3, 8], 7), ([1, 3, 7], 7), ([0, 9, 7], 7), ([0, -2, 7], 9), ([0, 3, 7], 3), ([0, 3, 6], 7)]
)
def test_invalid_starts(cu, longest, dtype, device):
    x = strata.randn(7, 1, 8).to(dtype).to(device)
    good, bad = strata.tensor([0, 3, 7]).to(device), strata.tensor(cu).to(device)
    for pair, longs in (((bad, good), (longest, 7)), ((good, bad), (7, longest))):
        with pytest.raises(IndexError, match="varlen_att"):
            F.varlen_attn(x, x, x, *pair, *longs)
            getattr(strata, DEVICE).synchronize()
    assert np.isfinite(wide(F.varlen_attn(x, x, x, good, good, 7, 7))).all()


def test_views_of_a_projection_and_odd_addresses():
    for offset in (0, 1, 4):
        flat = strata.randn(50 * 3 * 2 * 24 + 8, dtype=strata.bfloat16).to(DEVICE)
        x = flat[offset : offset + 50 * 3 * 2 * 24].view(50, 3, 2, 24)
        leaves = [x[:, i].requires_grad_() for i in range(3)]
        cu = starts([20, 30]).to(DEVICE)
        out = F.varlen_attn(*leaves, cu, cu, 30, 30, window_size=[7, 0])
        g = strata.randn(*out.shape, dtype=out.dtype).to(DEVICE)
        want = reference(*map(wide, (*leaves, g)), ([20, 30], [20, 30]), (7, 0), 24**-0.5)
        for got, expected in zip((out, *strata.autograd.grad(out, leaves, g)), want, strict=False):
            near(got, expected, strata.bfloat16)


def test_the_module_of_pytorch():
    from strata.nn.attention.varlen import AuxRequest, varlen_attn

    q, k, v = (strata.randn(6, 2, 8) for _ in range(3))
    cu = starts([2, 4])
    out = varlen_attn(q, k, v, cu, cu, 4, 4, window_size=(-1, 0))
    again, lse = varlen_attn(q, k, v, cu, cu, 4, 4, window_size=(-1, 0), return_aux=AuxRequest(lse=True))
    assert strata.equal(out, again) and lse.shape == (2, 6)
    assert strata.equal(out, F.varlen_attn(q, k, v, cu, cu, 4, 4, window_size=[-1, 0]))
    with pytest.raises(ValueError, match="enable_gqa"):
        varlen_attn(q, k[:, :1], v[:, :1], cu, cu, 4, 4)


def test_autocast_and_meta():
    cu = starts([2, 4])
    with strata.autocast("cpu", dtype=strata.bfloat16):
        assert F.varlen_attn(*(strata.randn(6, 2, 8) for _ in range(3)), cu, cu, 4, 4).dtype == strata.bfloat16
    q = strata.empty(6, 4, 8, device="meta", requires_grad=True)
    k = strata.empty(9, 2, 8, device="meta")
    out = F.varlen_attn(q, k, k, cu.to("meta"), cu.to("meta"), 4, 5, enable_gqa=True)
    out.sum().backward()
    assert out.shape == (6, 4, 8) and q.grad.shape == q.shape
