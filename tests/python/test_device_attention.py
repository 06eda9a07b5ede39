"""scaled_dot_product_attention on a device, each kernel by itself, and its gradients, against float64: causal, masks of all kinds and
strides, shared heads, rows that attend to nothing, odd sizes, views of a projection, addresses off the vectors."""

import os

import numpy as np
import pytest
import strata
from strata import _C
from strata.nn import functional as F

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_CARD = DEVICE == "cuda"
HALVES = [strata.bfloat16, strata.float16]
ERRORS = {strata.bfloat16: 8e-3, strata.float16: 1.5e-3, strata.float32: 1e-5}  # relative, of a whole tensor
# rows, columns, width, value width
SIZES = [(5, 5, 16, 16), (1, 1, 8, 8), (1, 70, 64, 64), (70, 1, 64, 64), (130, 67, 64, 40), (67, 130, 24, 64)]
SIZES += [(33, 65, 128, 128), (65, 33, 72, 100), (40, 50, 256, 256), (17, 19, 130, 136), (50, 50, 20, 13)]
if ON_CARD:
    SIZES += [(1000, 1000, 64, 64), (257, 1025, 128, 128), (1025, 257, 80, 96), (300, 500, 192, 192)]


def entries():
    """The fused kernels that this device has."""
    ready = []
    q = strata.ones(1, 1, 64, 64, dtype=strata.bfloat16, device=DEVICE)
    for name in ("hopper", "tensor_cores"):
        _C._prefer_kernel(name)
        try:
            lines = strata.explain(F.scaled_dot_product_attention, q, q, q)
        finally:
            _C._prefer_kernel(None)
        if any(kernel == name and reason.startswith("chosen") for _, kernel, reason in lines):
            ready.append(name)
    return ready


KERNELS = entries()
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_dtype = pytest.mark.parametrize("dtype", HALVES, ids=["bf16", "f16"])


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def normal(*shape, seed, dtype):
    return strata.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype).to(DEVICE)


def reference(q, k, v, g, causal=False, mask=None, scale=None):
    """The result and the gradients of q, k, v and the mask, in float64."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = q @ k.swapaxes(-1, -2) * scale
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    w = e / np.where(total == 0, 1, total)
    slope = g @ v.swapaxes(-1, -2)
    ds = w * (slope - (slope * w).sum(-1, keepdims=True))
    return w @ v, ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, w.swapaxes(-1, -2) @ g, ds


def close(got, want, dtype):
    got = wide(got)
    assert got.shape == want.shape
    assert np.isfinite(got).all()
    size = np.linalg.norm(want)
    # A gradient that is zero in exact arithmetic (a single key) is the difference of rounded numbers.
    assert np.linalg.norm(got - want) <= ERRORS[dtype] * max(size, 0.1 * np.sqrt(want.size)), (got, want)


def attend(kernel, q, k, v, must=True, **kwargs):
    """The result, and its gradients for normal numbers, by one kernel."""
    tensors = [t.detach().requires_grad_() for t in (q, k, v)]
    made = []

    def run():
        y = F.scaled_dot_product_attention(*tensors, **kwargs)
        g = normal(*y.shape, seed=9, dtype=y.dtype)
        made.extend([y, g, strata.autograd.grad(y, tensors, g)])

    _C._prefer_kernel(kernel)
    try:
        lines = strata.explain(run)
    finally:
        _C._prefer_kernel(None)
    chosen = [name for op, name, reason in lines if op.startswith("_attention") and reason.startswith("chosen")]
    assert not must or chosen == [kernel, kernel], lines
    return made


def check(kernel, q, k, v, must=True, want_mask=None, **kwargs):
    y, g, grads = attend(kernel, q, k, v, must, **kwargs)
    want = reference(*map(wide, (q, k, v, g)), kwargs.get("is_causal", False), want_mask, kwargs.get("scale"))
    close(y, want[0], q.dtype)
    for got, expected in zip(grads, want[1:4], strict=True):
        close(got, expected, q.dtype)
    return y, grads


def takes(kernel, rows, width, mask=False, scale=1.0):
    return kernel != "hopper" or (width <= 128 and rows > 0 and not mask and scale > 0)


@every_kernel
@every_dtype
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(size, causal, dtype, kernel):
    rows, columns, width, values = size
    q = normal(2, 2, rows, width, seed=1, dtype=dtype)
    k, v = normal(2, 2, columns, width, seed=2, dtype=dtype), normal(2, 2, columns, values, seed=3, dtype=dtype)
    check(kernel, q, k, v, takes(kernel, rows, max(width, values)), is_causal=causal)


@every_kernel
@every_dtype
def test_views_of_a_projection(dtype, kernel):
    x = normal(2, 70, 3, 3, 64, seed=1, dtype=dtype)
    q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
    y, grads = check(kernel, q, k, v, is_causal=True)
    assert y.transpose(1, 2).is_contiguous()  # joining the heads needs no copy
    assert all(g.transpose(1, 2).is_contiguous() for g in grads)


@every_kernel
@pytest.mark.parametrize("offset", [1, 4, 7])
def test_addresses_off_the_vectors(offset, kernel):
    size = 2 * 40 * 24
    q, k, v = (
        normal(size + 8, seed=i, dtype=strata.bfloat16)[offset : offset + size].view(2, 40, 24) for i in range(3)
    )
    check(kernel, q, k, v)
    check(kernel, q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1))


@every_kernel
def test_ranks(kernel):
    for batch in [(), (3,), (2, 1, 3), (2, 2, 1, 2)]:
        q, k, v = (normal(*batch, 20, 16, seed=i, dtype=strata.float16) for i in range(3))
        check(kernel, q, k, v, is_causal=True)
    # The dimensions of the batch step in different orders: too many for the kernels.
    q = normal(2, 2, 2, 2, 9, 16, seed=1, dtype=strata.float16)
    check(kernel, q, q.permute(3, 2, 1, 0, 4, 5), q.permute(2, 0, 3, 1, 4, 5), must=False)


@every_kernel
@pytest.mark.parametrize("scale", [0.25, 3.0, -0.5, 0.0])
def test_scales(scale, kernel):
    q, k, v = (normal(2, 50, 32, seed=i, dtype=strata.bfloat16) for i in range(3))
    check(kernel, q, k, v, takes(kernel, 50, 32, scale=scale), scale=scale)


@every_dtype
@pytest.mark.parametrize("shape", [(33, 70), (1, 70), (33, 1), (2, 1, 33, 70), (3, 33, 70), (2, 3, 33, 70)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "float32", "own"])
def test_masks(kind, shape, dtype):
    q = normal(2, 3, 33, 64, seed=1, dtype=dtype)
    k, v = (normal(2, 3, 70, 64, seed=i, dtype=dtype) for i in (2, 3))
    numbers = np.random.default_rng(4).standard_normal(shape)
    if kind == "bool":
        mask = strata.tensor(numbers > -0.5).to(DEVICE)
        values = numbers > -0.5
    else:
        mask = strata.tensor(numbers).to(strata.float32 if kind == "float32" else dtype).to(DEVICE)
        values = wide(mask)
    check("tensor_cores", q, k, v, want_mask=values, attn_mask=mask)


@pytest.mark.parametrize("width", [24, 128, 200])
def test_masks_with_strides(width):
    q, k, v = (normal(2, 50, width, seed=i, dtype=strata.bfloat16) for i in range(3))
    numbers = np.random.default_rng(4).standard_normal((50, 100)) > 0
    numbers[:, 6] = True  # column 3 of the view
    mask = strata.tensor(numbers).to(DEVICE)
    check("tensor_cores", q, k, v, want_mask=numbers[:, ::2], attn_mask=mask[:, ::2])
    check("tensor_cores", q, k, v, want_mask=numbers[:, :50].T | np.eye(50, dtype=bool),
          attn_mask=mask[:, :50].T | strata.eye(50, device=DEVICE).to(strata.bool))  # fmt: skip


@pytest.mark.parametrize(
    ("device", "dtype"),
    [(DEVICE, strata.bfloat16), (DEVICE, strata.float32), ("cpu", strata.float32), ("cpu", strata.bfloat16)],
)
@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_rows_that_attend_to_nothing_are_zero(kind, device, dtype):
    keep = np.random.default_rng(1).standard_normal((20, 30)) > 0
    keep[[0, 7, 19]] = False
    mask = strata.tensor(keep)
    if kind == "additive":
        mask = strata.tensor(np.where(keep, 0.0, -np.inf)).to(dtype)
    q, k, v = (normal(2, n, 16, seed=n, dtype=dtype).to(device).requires_grad_() for n in (20, 30, 30))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(device))
    g = normal(2, 20, 16, seed=5, dtype=dtype).to(device)
    y.backward(g)
    want = reference(*map(wide, (q, k, v, g)), mask=keep)
    assert (wide(y)[:, [0, 7, 19]] == 0).all()
    for got, expected in zip((y, q.grad, k.grad, v.grad), want, strict=False):
        close(got, expected, dtype)
    assert (wide(q.grad)[:, [0, 7, 19]] == 0).all()


def test_gradient_of_a_mask():
    q, k, v = (normal(2, 3, 20, 16, seed=i, dtype=strata.bfloat16) for i in range(3))
    mask = normal(3, 1, 20, seed=4, dtype=strata.bfloat16).requires_grad_()
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    g = normal(*y.shape, seed=5, dtype=strata.bfloat16)
    y.backward(g)
    want = reference(*map(wide, (q, k, v, g)), mask=wide(mask))
    close(y, want[0], strata.bfloat16)
    got, expected = wide(mask.grad), want[4].sum((0, 2))[:, None]
    assert np.linalg.norm(got - expected) <= 2e-2 * np.linalg.norm(expected)


@every_kernel
@pytest.mark.parametrize("masked", [False, True])
def test_shared_heads(masked, kernel):
    q = normal(2, 6, 40, 32, seed=1, dtype=strata.bfloat16)
    k, v = (normal(2, 2, 50, 32, seed=i, dtype=strata.bfloat16) for i in (2, 3))
    numbers = np.random.default_rng(4).standard_normal((6, 40, 50)) if masked else None
    kwargs = dict(attn_mask=strata.tensor(numbers).to(strata.float32).to(DEVICE)) if masked else dict(is_causal=True)
    y, g, grads = attend(kernel, q, k, v, takes(kernel, 40, 32, masked), enable_gqa=True, **kwargs)
    all_k, all_v = (np.repeat(wide(t), 3, 1) for t in (k, v))
    want = reference(wide(q), all_k, all_v, wide(g), not masked, numbers)
    assert y.transpose(1, 2).is_contiguous()
    close(y, want[0], q.dtype)
    close(grads[0], want[1], q.dtype)
    for got, expected in zip(grads[1:], want[2:4], strict=True):
        close(got, expected.reshape(2, 2, 3, 50, 32).sum(2), q.dtype)


@every_kernel
def test_no_elements(kernel):
    for batch, rows in [(0, 5), (2, 0)]:
        q = normal(batch, rows, 16, seed=1, dtype=strata.bfloat16).requires_grad_()
        k, v = (normal(batch, 6, 16, seed=i, dtype=strata.bfloat16).requires_grad_() for i in (2, 3))
        _C._prefer_kernel(kernel)
        try:
            y = F.scaled_dot_product_attention(q, k, v)
            y.sum().backward()
        finally:
            _C._prefer_kernel(None)
        assert y.shape == (batch, rows, 16) and q.grad.shape == q.shape
        assert (wide(k.grad) == 0).all() and (wide(v.grad) == 0).all()
    q, k = (normal(2, n, 16, seed=1, dtype=strata.bfloat16) for n in (4, 0))
    assert (wide(F.scaled_dot_product_attention(q, k, k)) == 0).all()  # no keys


@every_kernel
def test_expanded_gradient(kernel):
    q, k, v = (normal(2, 40, 64, seed=i, dtype=strata.float16).requires_grad_() for i in range(3))
    _C._prefer_kernel(kernel)
    try:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    finally:
        _C._prefer_kernel(None)
    want = reference(*map(wide, (q, k, v)), np.ones((2, 40, 64)))
    for t, expected in zip((q, k, v), want[1:4], strict=True):
        close(t.grad, expected, strata.float16)


@every_kernel
def test_bits_are_the_same_each_time(kernel):
    q, k, v = (normal(3, 2, 150, 64, seed=i, dtype=strata.bfloat16) for i in range(3))
    runs = []
    for _ in range(3):
        y, _, grads = attend(kernel, q, k, v, is_causal=True)
        runs.append([wide(t).tobytes() for t in (y, *grads)])
    assert runs[0] == runs[1] == runs[2]


def test_large_scores_do_not_overflow():
    q, k, v = (normal(1, 40, 64, seed=i, dtype=strata.bfloat16) for i in range(3))
    check("tensor_cores", q * 30, k * 30, v, is_causal=True)


def test_double_gradients():
    """They go through other ops."""
    q, k, v = (normal(2, 6, 8, seed=i, dtype=strata.float16).requires_grad_() for i in range(3))
    mask = strata.tensor(np.tri(6, dtype=bool)).to(DEVICE)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    (first,) = strata.autograd.grad(y.square().sum(), [q], create_graph=True)
    (second,) = strata.autograd.grad(first.square().sum(), [k])
    wide_q, wide_k, wide_v = (strata.tensor(wide(t)).requires_grad_() for t in (q, k, v))
    y = F.scaled_dot_product_attention(wide_q, wide_k, wide_v, attn_mask=mask.cpu())
    (first,) = strata.autograd.grad(y.square().sum(), [wide_q], create_graph=True)
    (want,) = strata.autograd.grad(first.square().sum(), [wide_k])
    assert np.linalg.norm(wide(second) - wide(want)) <= 2e-2 * np.linalg.norm(wide(want))


def test_refused_calls_name_the_reason():
    for x, reason in [
        (strata.ones(1, 8, 16, device=DEVICE), "for float16 and bfloat16"),
        (strata.ones(1, 8, 264, device=DEVICE, dtype=strata.bfloat16), "for heads of up to 256 features"),
    ]:
        lines = strata.explain(F.scaled_dot_product_attention, x, x, x)
        verdicts = {name: text for op, name, text in lines if op == "_attention"}
        assert verdicts["tensor_cores"] == reason and verdicts["ops"].startswith("chosen"), lines


def test_hostile_arguments():
    x = strata.ones(2, 8, 16, device=DEVICE, dtype=strata.bfloat16)
    with pytest.raises(RuntimeError, match="attn_mask to be bool, float32 or of the dtype of query"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=strata.ones(8, 8, device=DEVICE, dtype=strata.int64))
    with pytest.raises(RuntimeError, match="attn_mask to be bool, float32 or of the dtype of query"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=strata.ones(8, 8, device=DEVICE, dtype=strata.float16))
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(x, x, x, attn_mask=strata.ones(8, 7, device=DEVICE, dtype=strata.bool))


@pytest.fixture
def small_workspace():
    strata.set_workspace_limit(0)  # then the scores of 16 rows at a time are stored
    yield
    strata.set_workspace_limit(None)


@pytest.mark.usefixtures("small_workspace")
@pytest.mark.parametrize("mask", [None, "causal", "bool", "additive"])
@pytest.mark.parametrize("size", [(70, 70), (70, 33), (33, 70), (16, 5), (17, 1), (1, 40), (48, 48)], ids=str)
@pytest.mark.parametrize("dtype", [strata.float32, strata.float64], ids=["f32", "f64"])
def test_scores_in_blocks_of_rows(dtype, size, mask):
    (rows, columns), causal = size, mask == "causal"
    q, k, v, g = (
        normal(2, 3, n, w, seed=i, dtype=dtype)
        for i, (n, w) in enumerate([(rows, 8), (columns, 8), (columns, 5), (rows, 5)])
    )
    m = None
    if mask in ("bool", "additive"):
        m = normal(2, 1, rows, columns, seed=9, dtype=dtype)
        m = m > 0.3 if mask == "bool" else m
        m[:, :, rows // 2] = False if mask == "bool" else -np.inf  # a row that attends to nothing
    given = m.cpu().numpy() if mask == "bool" else None if m is None else wide(m)
    want = reference(*map(wide, (q, k, v, g)), causal, given)
    leaves = [t.requires_grad_() for t in (q, k, v)]
    whole = None if m is None else m.expand(2, 3, rows, columns)
    scale = 8**-0.5
    for out in (
        F.scaled_dot_product_attention(*leaves, attn_mask=m, is_causal=causal),
        strata._C.ops["_attention"](*leaves, whole, causal, scale)[0],
    ):
        grads = strata.autograd.grad(out, leaves, g)
        for got, expected in zip((out, *grads), want, strict=False):
            error = np.abs(wide(got) - expected).max(initial=0)
            assert error <= (1e-5 if dtype is strata.float32 else 1e-12) * 10, error


def test_the_scores_of_float32_are_not_stored_at_once():
    q = normal(1, 1, 1000, 4, seed=0, dtype=strata.float32).requires_grad_()
    runtime = getattr(strata, DEVICE)
    scores = 1000 * 1000 * 4

    def peak():
        runtime.synchronize()
        runtime.reset_peak_memory_stats()
        before = runtime.memory_allocated()
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        runtime.synchronize()
        return runtime.max_memory_allocated() - before

    assert peak() > scores
    strata.set_workspace_limit(1 << 17)
    try:
        assert peak() < scores / 2
    finally:
        strata.set_workspace_limit(None)
