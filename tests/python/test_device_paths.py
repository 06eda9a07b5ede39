"""Kernels that choose among several code paths by shape, type and address: every path compared with float64 NumPy or the CPU, at
the sizes where one ends and the next begins."""

import os

import numpy as np
import pytest
import strata

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
FLOATS = [strata.float32, strata.bfloat16, strata.float16, strata.float64]
ULPS = {strata.float32: 1e-5, strata.bfloat16: 2e-2, strata.float16: 2e-3, strata.float64: 1e-12}


def there(shape, dtype, seed=0):
    return strata.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype).to(DEVICE)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def close(got, want, dtype, scale=1.0):
    np.testing.assert_allclose(wide(got), want, rtol=ULPS[dtype], atol=ULPS[dtype] * scale)


@pytest.mark.parametrize("dtype", [strata.uint8, strata.int16, strata.bfloat16, strata.float32, strata.int64])
@pytest.mark.parametrize("rows, columns", [(16, 16), (64, 128), (272, 144), (16, 528), (1040, 48), (33, 65)])
def test_transposes_move_every_element(rows, columns, dtype):
    x = strata.arange(rows * columns).reshape(rows, columns).to(dtype)
    assert strata.equal(x.to(DEVICE).t().contiguous().cpu(), x.t().contiguous())


@pytest.mark.parametrize("dtype", [strata.uint8, strata.float16, strata.float32, strata.float64])
def test_transposes_of_batches_and_of_views_off_the_vectors(dtype):
    x = strata.arange(3 * 80 * 96).reshape(3, 80, 96).to(dtype)
    y = x.to(DEVICE)
    assert strata.equal(y.transpose(1, 2).contiguous().cpu(), x.transpose(1, 2).contiguous())
    assert strata.equal(y.permute(2, 0, 1).contiguous().cpu(), x.permute(2, 0, 1).contiguous())
    assert strata.equal(y[:, 1:, 3:].transpose(1, 2).contiguous().cpu(), x[:, 1:, 3:].transpose(1, 2).contiguous())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [8, 24, 136, 512, 520, 1000, 8192, 16384, 16392])
def test_softmax_of_rows_in_registers_and_beyond(n, dtype):
    x, g = there((3, n), dtype, 1), there((3, n), dtype, 2)
    e = np.exp(wide(x) - wide(x).max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    for f, reference, back in (
        (strata.softmax, want, lambda y: (wide(g) - (wide(g) * y).sum(1, keepdims=True)) * y),
        (strata.log_softmax, np.log(want), lambda y: wide(g) - np.exp(y) * wide(g).sum(1, keepdims=True)),
    ):
        leaf = x.clone().requires_grad_()
        y = f(leaf, -1)
        close(y, reference, dtype, scale=0.01 if f is strata.softmax else 1)
        y.backward(g)
        close(leaf.grad, back(wide(y)), dtype, scale=n**0.5)


def test_softmax_of_rows_with_infinities_and_nan():
    x = np.zeros((4, 64))
    x[0, :] = -np.inf
    x[1, 3] = np.nan
    x[2, 5] = -np.inf
    x[3, 7] = np.inf
    for dtype in FLOATS:
        y = wide(strata.softmax(strata.tensor(x).to(dtype).to(DEVICE), -1))
        assert np.isnan(y[0]).all() and np.isnan(y[1]).all() and np.isnan(y[3]).all()
        assert y[2, 5] == 0 and abs(y[2].sum() - 1) < 1e-2


@pytest.mark.parametrize("n", [8, 200, 8192, 16384])
@pytest.mark.parametrize("x_type, w_type", [(strata.bfloat16, strata.bfloat16), (strata.float16, strata.float16)])
def test_layer_norm_of_narrow_types(n, x_type, w_type):
    x, w, b = there((5, n), x_type, 1), there((n,), w_type, 2), there((n,), w_type, 3)
    normal = (wide(x) - wide(x).mean(1, keepdims=True)) / np.sqrt(wide(x).var(1, keepdims=True) + 1e-5)
    close(F.layer_norm(x, (n,), w, b), normal * wide(w) + wide(b), x_type)
    close(F.layer_norm(x, (n,)), normal, x_type)
    close(F.layer_norm(x, (n,), w), normal * wide(w), x_type)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape, dims",
    [
        ((100003,), 0),
        ((64, 4096), 1),
        ((7, 8200), 1),
        ((4100, 72), 0),
        ((130, 64), 0),
        ((128, 64), 0),
        ((127, 256), 0),
        ((5000, 8), 0),
        ((9, 16, 40), (0, 2)),
        ((40, 6, 14, 14), (0, 2, 3)),
        ((40, 6, 16, 16), (0, 2, 3)),
        ((3, 5, 1000), (0, 1, 2)),
    ],
)
def test_sums_and_extremes(shape, dims, dtype):
    x = there(shape, dtype, 1)
    if dtype != strata.float64:
        x = x.to(dtype)
    a = wide(x)
    size = np.prod([shape[d] for d in ((dims,) if isinstance(dims, int) else dims)]) ** 0.5
    close(x.sum(dims), a.sum(dims), dtype, size)
    assert np.array_equal(wide(x.amax(dims)), a.max(dims)) and np.array_equal(wide(x.amin(dims)), a.min(dims))


@pytest.mark.parametrize("dtype", [strata.bool, strata.uint8, strata.int32, strata.int64])
@pytest.mark.parametrize("shape, dim", [((3000, 72), 0), ((9, 4096), 1), ((5, 33), 1)])
def test_whole_numbers_add_exactly(shape, dim, dtype):
    a = np.random.default_rng(1).integers(0, 2 if dtype == strata.bool else 100, shape)
    x = strata.tensor(a).to(dtype).to(DEVICE)
    assert np.array_equal(x.sum(dim).cpu().numpy(), a.sum(dim))


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.int64])
@pytest.mark.parametrize(
    "m, k, n", [(3, 1000, 5), (128, 3136, 128), (64, 64, 64), (65, 129, 1), (1, 4096, 70), (128, 0, 4)]
)
def test_products_whose_sums_are_cut(m, k, n, dtype):
    draw = np.random.default_rng(1)
    a, b, c = (draw.integers(-3, 4, shape).astype(float) for shape in ((m, k), (k, n), (n,)))
    ta, tb, tc = (strata.tensor(v).to(dtype).to(DEVICE) for v in (a, b, c))
    assert np.array_equal(wide(ta @ tb), a @ b)
    assert np.array_equal(wide(strata.addmm(tc, ta, tb, beta=2, alpha=3)), 2 * c + 3 * (a @ b))
    assert np.array_equal(wide(ta.t().contiguous().t() @ tb.t().contiguous().t()), a @ b)


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64])
@pytest.mark.parametrize(
    "n, c, o, size, kernel, options",
    [
        (2, 3, 70, 9, 3, dict(padding=1)),
        (3, 1, 32, 14, 3, dict(padding=1)),
        (2, 40, 20, 7, 3, dict(padding=2, dilation=2)),
        (2, 4, 6, 8, (3, 1), dict(padding=(4, 0))),
        (2, 8, 12, 10, 3, dict(groups=4, padding=1)),
        (2, 6, 4, 11, 3, dict(stride=2, padding=1)),
        (1, 66, 5, 6, 2, dict()),
    ],
)
def test_convolutions_and_both_gradients(n, c, o, size, kernel, options, dtype):
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    draw = np.random.default_rng(1)
    x = draw.integers(-2, 3, (n, c, size, size)).astype(float)
    w = draw.integers(-2, 3, (o, c // options.get("groups", 1), *kernel)).astype(float)
    b = draw.integers(-2, 3, o).astype(float)
    results = []
    for device in ("cpu", DEVICE):
        tx, tw, tb = (strata.tensor(v).to(dtype).to(device).requires_grad_() for v in (x, w, b))
        y = F.conv2d(tx, tw, tb, **options)
        g = strata.tensor(np.random.default_rng(2).integers(-2, 3, tuple(y.shape)).astype(float)).to(dtype).to(device)
        y.backward(g)
        results.append([wide(t) for t in (y, tx.grad, tw.grad, tb.grad)])
    for want, got in zip(*results, strict=True):
        assert np.array_equal(got, want)  # integers: no rounding


@pytest.mark.parametrize("kernel, stride, padding, size, ceil", [(2, 2, 0, (8, 10), False), (2, 2, 0, (7, 9), False), (2, 2, 0, (7, 9), True),
                                                                 (2, 3, 1, (9, 8), False), (3, 3, 1, (10, 7), True), (3, 2, 1, (9, 9), False)])  # fmt: skip
def test_max_pool_gradients_of_windows_that_lie_apart_or_overlap(kernel, stride, padding, size, ceil):
    x = np.random.default_rng(1).permutation(2 * 3 * size[0] * size[1]).reshape(2, 3, *size).astype(float)
    results = []
    for device in ("cpu", DEVICE):
        t = strata.tensor(x).to(strata.float32).to(device).requires_grad_()
        y = F.max_pool2d(t, kernel, stride, padding, ceil_mode=ceil)
        y.backward(strata.arange(y.numel(), dtype=strata.float32).reshape(y.shape).to(device))
        results.append((wide(y), wide(t.grad)))
    for want, got in zip(*results, strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("count", [1, 128, 2048, 2049, 5000])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_negative_log_likelihoods_of_one_block_and_of_many(count, reduction):
    draw = np.random.default_rng(1)
    x, t, w = draw.standard_normal((count, 5)), draw.integers(0, 5, count), draw.random(5) + 0.5
    t[::7] = 2
    each = np.where(t == 2, 0, -x[np.arange(count), t] * w[t])
    scale = np.where(t == 2, 0, w[t]).sum()
    want = {"none": each, "sum": each.sum(), "mean": each.sum() / scale if scale else np.nan}[reduction]
    for dtype in (strata.float32, strata.float64):
        tx, tw = (strata.tensor(v).to(dtype).to(DEVICE) for v in (x, w))
        got = F.nll_loss(tx, strata.tensor(t).to(DEVICE), tw, ignore_index=2, reduction=reduction)
        close(got, want, dtype)


def test_gelu_keeps_its_digits_in_the_lower_tail():
    from math import erfc, sqrt

    x = np.linspace(-12, 12, 4001).astype(np.float32)
    want = np.array([0.5 * v * erfc(-v / sqrt(2)) for v in x.astype(float)])
    got = wide(F.gelu(strata.tensor(x).to(DEVICE)))
    np.testing.assert_allclose(got[x >= -5], want[x >= -5], rtol=1e-5, atol=0)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)
    special = wide(F.gelu(strata.tensor([np.inf, -np.inf, np.nan, 0.0, -40.0]).to(strata.float32).to(DEVICE)))
    assert special[0] == np.inf and np.isnan(special[2]) and special[3] == 0 and special[4] == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8", "bool"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(3, 2), (8, 16, 24), (1, 0, 5), (4,), (2,) * 8, (2,) * 9, (64, 32)])
def test_cat_of_parts_of_any_width(sizes, dim, dtype):
    rng = np.random.default_rng(dim)
    shapes = [tuple(n if d == dim else k for d, k in enumerate((3, 5, 16))) for n in sizes]
    parts = [rng.integers(0, 2, s).astype(bool) if dtype == "bool" else rng.integers(-9, 9, s) for s in shapes]
    there = [strata.tensor(p).to(getattr(strata, dtype)).to(DEVICE) for p in parts]
    want = np.concatenate(parts, dim)
    assert strata.cat(there, dim).cpu().to(strata.int64).tolist() == want.astype(np.int64).tolist()
    swapped = [t.transpose(0, 1).contiguous().transpose(0, 1) for t in there]
    assert strata.cat([there[0], *swapped[1:]], dim).cpu().to(strata.int64).tolist() == want.astype(np.int64).tolist()
    out = strata.zeros(want.size + 1, dtype=there[0].dtype, device=DEVICE)[1:].reshape(want.shape)  # not aligned
    assert strata.cat(there, dim, out=out).cpu().to(strata.int64).tolist() == want.astype(np.int64).tolist()


@pytest.mark.parametrize("shape, dim", [((5, 0), 1), ((0, 4), 1), ((0, 4), 0), ((0,), None)])
def test_norms_of_empty_tensors(shape, dim):
    x = strata.zeros(shape)
    expected = strata.linalg.vector_norm(x, 3, dim)
    got = strata.linalg.vector_norm(x.to(DEVICE), 3, dim)
    assert got.shape == expected.shape and got.tolist() == expected.tolist()


def test_clipping_by_a_norm_on_the_host_can_be_explained():
    p = strata.nn.Parameter(strata.ones(3, device=DEVICE))
    p.grad = strata.full((3,), 4.0, device=DEVICE)
    lines = strata.explain(lambda: strata.nn.utils.clip_grads_with_norm_([p], 1.0, strata.tensor(2.0)))
    verdicts = {name: reason for op, name, reason in lines if op == "_clip_grads_with_norm_"}
    assert verdicts["by_number"].startswith("chosen")
    assert p.grad.tolist() == pytest.approx([2.0] * 3, rel=1e-5)
