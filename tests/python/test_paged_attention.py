"""paged_attention: keys and values in pages, in random order, against float64; splits over the context, windows, bad tables."""

import os

import numpy as np
import pytest
import strata
from strata.nn import functional as F

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_CARD = DEVICE == "cuda"
ERRORS = {strata.bfloat16: 8e-3, strata.float16: 1.5e-3, strata.float32: 1e-5, strata.float64: 1e-12}
LONG = 4000 if ON_CARD else 600


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def reference(q, k, v, table, contexts, scale, window):
    sequences, queries, heads, _ = q.shape
    times, size = heads // k.shape[2], k.shape[1]
    out = np.zeros((sequences, queries, heads, v.shape[-1]))
    for n in range(sequences):
        count = contexts[n]
        places = [(table[n, j // size], j % size) for j in range(count)]
        keys = np.array([k[p] for p in places]).reshape(count, *k.shape[2:])
        values = np.array([v[p] for p in places]).reshape(count, *v.shape[2:])
        for i in range(queries):
            at = count - queries + i
            first = 0 if window is None else max(at - window, 0)
            for h in range(heads if at >= 0 else 0):
                s = keys[first : at + 1, h // times] @ q[n, i, h] * scale
                w = np.exp(s - s.max())
                out[n, i, h] = w @ values[first : at + 1, h // times] / w.sum()
    return out


def check(
    contexts,
    queries,
    dtype,
    device,
    heads=2,
    shared=1,
    width=16,
    values=None,
    page=4,
    window=None,
    scale=None,
    kernel=None,
    index=strata.int32,
    seed=0,
):
    rng = np.random.default_rng(seed)
    values = values or width
    most = max(1, max(-(-c // page) for c in contexts))
    pages = most * len(contexts) + 3
    table = rng.permutation(pages)[: most * len(contexts)].reshape(len(contexts), most)
    for row, c in zip(table, contexts, strict=True):
        row[-(-c // page) :] = 10**6  # pages past the context are not read
    shapes = [(len(contexts), queries, heads, width), (pages, page, shared, width), (pages, page, shared, values)]
    q, k, v = (strata.tensor(rng.standard_normal(s)).to(dtype).to(device) for s in shapes)
    given = [strata.tensor(x).to(index).to(device) for x in (table, np.array(contexts))]
    found = []
    lines = strata.explain(lambda: found.append(F.paged_attention(q, k, v, *given, scale=scale, window=window)))
    if kernel:
        assert [n for op, n, why in lines if op == "_paged_attention" and why.startswith("chosen")] == [kernel], lines
    want = reference(*map(wide, (q, k, v)), table, contexts, width**-0.5 if scale is None else scale, window)
    got = wide(found[0])
    assert got.shape == want.shape and np.isfinite(got).all()
    error = np.linalg.norm(got - want)
    assert error <= ERRORS[dtype] * max(np.linalg.norm(want), 0.1 * np.sqrt(want.size)), error
    return found[0]


CONTEXTS = [[1], [5, 0, 13], [64, 17, 33, 2], [3, 100]]


@pytest.mark.parametrize("contexts", CONTEXTS, ids=str)
@pytest.mark.parametrize("queries", [1, 3, 16])
@pytest.mark.parametrize("window", [None, 0, 7, 1000])
def test_cpu(window, queries, contexts):
    for dtype in ERRORS:
        check(contexts, queries, dtype, "cpu", 4, 2, 9, 5, 3, window)


@pytest.mark.parametrize("contexts", CONTEXTS, ids=str)
@pytest.mark.parametrize("queries", [1, 3, 16])
@pytest.mark.parametrize("window", [None, 0, 7])
@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16], ids=str)
def test_tensor_cores(dtype, window, queries, contexts):
    check(contexts, queries, dtype, DEVICE, window=window, kernel="tensor_cores")


@pytest.mark.parametrize("width,values", [(8, 8), (64, 40), (128, 128), (72, 104), (256, 256), (136, 16)])
@pytest.mark.parametrize("heads,shared", [(1, 1), (8, 2), (17, 1), (3, 3)])
def test_widths_and_shared_heads(heads, shared, width, values):
    check([37, 5], 2, strata.bfloat16, DEVICE, heads, shared, width, values, 16, kernel="tensor_cores")
    check([20], 1, strata.float16, DEVICE, heads, shared, width, values, 1, 9, 0.7, "tensor_cores")


@pytest.mark.parametrize("page", [1, 16, 100, 256])
def test_long_contexts_are_split(page):
    # Few blocks: the keys are split into parts of at least 256, which a second kernel combines.
    for contexts in ([LONG], [LONG, 3, 0, LONG // 2 + 1]):
        for width in (64, 128):
            check(contexts, 2, strata.bfloat16, DEVICE, 4, 2, width, page=page, kernel="tensor_cores")
        check(contexts, 1, strata.float16, DEVICE, 2, 2, 32, page=page, window=LONG - 50, kernel="tensor_cores")


@pytest.mark.parametrize("contexts", CONTEXTS, ids=str)
@pytest.mark.parametrize("dtype", [strata.float32, strata.float64], ids=str)
def test_composed_of_other_ops(dtype, contexts):
    for window in (None, 5):
        check(contexts, 3, dtype, DEVICE, 4, 2, 9, 5, 3, window, kernel="ops")


def test_kinds_of_arguments():
    check([9, 4], 2, strata.bfloat16, DEVICE, index=strata.int64, kernel="tensor_cores")
    check([9, 4], 2, strata.bfloat16, DEVICE, width=9, kernel="ops")  # rows that are not aligned
    q, k = strata.randn(2, 4, 8), strata.randn(3, 4, 2, 8)
    table, contexts = strata.tensor([[0, 1], [2, 0]]), strata.tensor([5, 3])
    out = F.paged_attention(q, k, k, table, contexts)
    assert out.shape == (2, 4, 8)
    assert strata.equal(out, F.paged_attention(q.unsqueeze(1), k, k, table, contexts)[:, 0])
    assert strata.equal(out, strata.nn.attention.paged_attention(q, k, k, table, contexts))
    assert F.paged_attention(q[:0], k, k, table[:0], contexts[:0]).shape == (0, 4, 8)
    meta = F.paged_attention(*(t.to("meta") for t in (q, k, k, table, contexts)))
    assert meta.shape == (2, 4, 8)
    with pytest.raises(RuntimeError):
        F.paged_attention(q.requires_grad_(), k, k, table, contexts).sum().backward()


def test_views_of_a_cache():
    both = strata.randn(6, 2, 4, 3, 16, dtype=strata.bfloat16).to(DEVICE)  # keys and values of a page are neighbours
    q = strata.randn(2, 1, 3, 16, dtype=strata.bfloat16).to(DEVICE)
    table, contexts = strata.tensor([[3, 0], [5, 1]]).to(DEVICE), strata.tensor([7, 8]).to(DEVICE)
    got = F.paged_attention(q, both[:, 0], both[:, 1], table, contexts)
    want = reference(*map(wide, (q, both[:, 0], both[:, 1])), wide(table).astype(int), [7, 8], 0.25, None)
    assert np.abs(wide(got) - want).max() < 0.03


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", [strata.float32, strata.bfloat16], ids=str)
def test_bad_tables(dtype, device):
    q, k = strata.randn(2, 1, 1, 16).to(dtype).to(device), strata.randn(5, 4, 1, 16).to(dtype).to(device)
    for table, contexts in (
        ([[0, 5], [1, 2]], [8, 8]),
        ([[0, 1], [-1, 2]], [8, 8]),
        ([[0, 1], [1, 2]], [8, 9]),
        ([[0, 1], [1, 2]], [-1, 8]),
    ):
        with pytest.raises(IndexError):
            F.paged_attention(q, k, k, strata.tensor(table).to(device), strata.tensor(contexts).to(device))
            getattr(strata, DEVICE).synchronize()
    fine = F.paged_attention(q, k, k, strata.tensor([[0, 9], [1, 2]]).to(device), strata.tensor([4, 8]).to(device))
    assert np.isfinite(wide(fine)).all()


def test_whole_numbers_are_exact():
    # All scores are 0, so each weight is 1 / 8.
    v = np.random.default_rng(5).integers(-8, 9, (4, 4, 1, 8))
    table = np.array([[2, 0, 3]])
    want = v.reshape(16, 8)[[*range(8, 12), *range(4)]].mean(0)
    for device, dtype in (("cpu", strata.float32), (DEVICE, strata.bfloat16), (DEVICE, strata.float32)):
        zeros = [strata.zeros(*s, dtype=dtype, device=device) for s in ((1, 1, 1, 8), (4, 4, 1, 8))]
        cache = strata.tensor(v).to(device, dtype)
        got = F.paged_attention(*zeros, cache, strata.tensor(table).to(device), strata.tensor([8]).to(device))
        assert (wide(got)[0, 0, 0] == want).all()


def test_decoding_agrees_with_one_pass():
    """Tokens of a sequence one by one, in pages that fill up, give the rows of causal attention."""
    length, page = 21, 8
    q, k, v = (strata.randn(1, 2, length, 16, dtype=strata.float32) for _ in range(3))
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    caches, table = [strata.zeros(4, page, 2, 16) for _ in range(2)], strata.tensor([[3, 1, 2]])
    for t in range(length):
        for cache, x in zip(caches, (k, v), strict=True):
            cache[table[0, t // page].item(), t % page] = x[0, :, t]
        row = F.paged_attention(q[:, :, t], *caches, table, strata.tensor([t + 1]))
        assert strata.allclose(row, whole[:, :, t], atol=1e-5)
