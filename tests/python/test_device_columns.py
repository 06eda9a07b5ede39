"""Kernels over rows of channels: batch norm and max_pool2d of channels-last tensors, moments of columns, gradients of layer norm's
parameters, pointwise ops on rows of whole vectors. Beside NumPy in float64."""

import os

import numpy as np
import pytest
import strata
import strata.nn.functional as F

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ERRORS = {"float64": 1e-11, "float32": 1e-5, "bfloat16": 1.6e-2, "float16": 2e-3}


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def there(a, dtype="float32", last=False, device=DEVICE):
    t = strata.tensor(a, dtype=strata.float64).to(getattr(strata, dtype)).to(device)
    return t.contiguous(memory_format=strata.channels_last) if last else t


def wide(t):
    return np.array(t.detach().cpu().to(strata.float64).tolist()).reshape(tuple(t.shape))


def close(got, want, dtype, factor=1):
    error = np.abs(wide(got) - want).max(initial=0)
    assert error <= factor * ERRORS[dtype] * max(1.0, np.abs(want).max(initial=0)), error


def is_last(t):
    return t.is_contiguous(memory_format=strata.channels_last)


SHAPES = [(2, 8, 5, 3), (3, 64, 7, 7), (2, 24, 1, 9), (1, 136, 4, 2), (2, 3, 5, 4), (5, 16, 1, 1), (4, 12, 3, 3)]


# --- batch norm ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_batch_norm_of_channels_last(shape, dtype, device):
    c = shape[1]
    x, w, b, g = (numbers(s, i) for i, s in enumerate([shape, (c,), (c,), shape]))
    x = x * 2 + 3
    tx = there(x, dtype, True, device).requires_grad_()
    tw, tb = there(w, dtype, device=device).requires_grad_(), there(b, dtype, device=device).requires_grad_()
    x, w, b = wide(tx), wide(tw), wide(tb)
    mean, var = strata.zeros(c, device=device), strata.ones(c, device=device)
    y = F.batch_norm(tx, mean, var, tw, tb, training=True, momentum=0.3, eps=1e-3)
    axes, spread = (0, 2, 3), (None, slice(None), None, None)
    m, v = x.mean(axes), x.var(axes)
    r = 1 / np.sqrt(v + 1e-3)
    n = x.size // c
    hat = (x - m[spread]) * r[spread]
    close(y, hat * w[spread] + b[spread], dtype, 2)
    close(mean, 0.3 * m, "float32")
    close(var, 0.7 + 0.3 * v * n / (n - 1), "float32")
    assert is_last(y) == is_last(tx)
    for layout in (strata.channels_last, strata.contiguous_format):
        tg = there(g, dtype, device=device).contiguous(memory_format=layout)
        gx, gw, gb = strata.autograd.grad(y, [tx, tw, tb], tg, retain_graph=True)
        G = wide(tg)
        close(gb, G.sum(axes), dtype, 4)
        close(gw, (G * hat).sum(axes), dtype, 4)
        gh = G * w[spread]
        want = r[spread] * (gh - gh.mean(axes)[spread] - hat * (gh * hat).mean(axes)[spread])
        close(gx, want, dtype, 4)
        assert is_last(gx) == is_last(tx)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_with_given_statistics(shape, dtype):
    c = shape[1]
    x, m, v = numbers(shape), numbers(c, 1), numbers(c, 2) ** 2 + 0.1
    tx = there(x, dtype, True)
    y = F.batch_norm(tx, there(m), there(v), eps=1e-5)
    spread = (None, slice(None), None, None)
    close(y, (wide(tx) - m[spread]) / np.sqrt(v[spread] + 1e-5), dtype, 4)
    assert is_last(y) == is_last(tx)


def test_batch_norm_of_a_misaligned_view():
    x = numbers((2, 9, 4, 4))
    whole = there(x, "bfloat16", True)
    part = whole[:, 1:]  # channels-last strides, neither dense nor aligned
    y = F.batch_norm(part, None, None, training=True)
    v = wide(part)
    close(y, (v - v.mean((0, 2, 3), keepdims=True)) / np.sqrt(v.var((0, 2, 3), keepdims=True) + 1e-5), "bfloat16", 2)
    flat = there(np.arange(2 * 8 * 4 * 4 + 1) % 7, "float32")[1:].reshape(2, 4, 4, 8).permute(0, 3, 1, 2)
    v = wide(flat)
    close(
        F.batch_norm(flat, None, None, training=True),
        (v - v.mean((0, 2, 3), keepdims=True)) / np.sqrt(v.var((0, 2, 3), keepdims=True) + 1e-5),
        "float32",
        2,
    )


ORDERS = [
    ((2, 16, 5), (0, 2, 1)),  # x.transpose(1, 2), in memory [n, l, c]
    ((2, 16, 5), (2, 0, 1)),
    ((2, 8, 3, 4), (0, 3, 2, 1)),
    ((2, 8, 3, 4), (2, 0, 3, 1)),
    ((2, 8, 3, 4), (3, 2, 0, 1)),
    ((2, 8, 3, 2, 4), (0, 4, 3, 2, 1)),
    ((2, 8, 3, 2, 4), (0, 2, 3, 4, 1)),
    ((1, 8, 3, 1), (0, 2, 3, 1)),
]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape, order", ORDERS)
def test_batch_norm_of_any_order_in_memory(shape, order, training):
    x, g = numbers(shape), numbers(shape, 1)
    c = shape[1]
    back = list(np.argsort(order))
    results = []
    for device in ("cpu", DEVICE):
        for lead in (order, tuple(range(len(shape)))):
            tx = there(np.ascontiguousarray(x.transpose(lead)), device=device).permute(list(np.argsort(lead)))
            tg = there(np.ascontiguousarray(g.transpose(order)), device=device).permute(back)
            tx.requires_grad_()
            y = F.batch_norm(
                tx, there(numbers(c, 2), device=device), there(numbers(c, 3) ** 2, device=device), training=training
            )
            results.append((wide(y), wide(strata.autograd.grad(y, tx, tg)[0])))
    for y, gx in results[1:]:
        np.testing.assert_allclose(y, results[0][0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gx, results[0][1], rtol=1e-4, atol=1e-5)


# --- moments of columns ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(1, 8), (2, 16), (33, 8), (70, 64), (1000, 24), (513, 136), (3000, 8)])
def test_moments_of_columns(shape, dtype):
    t = there(numbers(shape) * 3 + 1, dtype)
    v = wide(t)
    got_var, got_mean = strata.var_mean(t, 0, correction=0)
    close(got_var, v.var(0), dtype)
    close(got_mean, v.mean(0), dtype)


def test_variance_of_columns_beside_a_large_mean():
    x = (numbers((2000, 16)) + 1e6).astype(np.float32)
    v = x.astype(np.float64)
    got = wide(there(x).var(0))
    assert (np.abs(got - v.var(0, ddof=1)) <= 1.3e-6 * v.var(0, ddof=1)).all()


def test_variance_of_columns_of_extreme_values():
    x = np.ones((100, 8), np.float32)
    x[:, 0] = numbers(100) * 1e25
    x[:, 1] = numbers(100) * 1e-22
    x[:, 2] = 7.7
    x[50, 3] = np.inf
    x[51, 4] = np.nan
    x[:, 5] = 0
    x[60:, 6] = -3e30
    got = wide(there(x).std(0, correction=0))
    with np.errstate(all="ignore"):
        want = x.astype(np.float64).std(0)
    assert np.isnan(got[3]) and np.isnan(got[4])
    np.testing.assert_allclose(got[[0, 1, 6]], want[[0, 1, 6]], rtol=2e-6)
    assert got[2] <= 1e-6 and got[5] == 0 and got[7] == 0


def test_variance_of_huge_doubles():
    x = np.full((40, 8), 1e160)
    assert (wide(there(x, "float64").var(0)) == 0).all() and (wide(there(x.T, "float64").var(1)) == 0).all()


def test_columns_have_the_same_bits_each_time():
    t = there(numbers((3001, 72)))
    first = t.var(0)
    assert all(strata.equal(t.var(0), first) for _ in range(3))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("rows, width", [(1, 8), (5, 64), (200, 24), (70, 768), (33, 7)])
def test_gradients_of_layer_norm_parameters(rows, width, dtype):
    x, w, g = numbers((rows, width)) * 2 + 1, numbers(width, 1), numbers((rows, width), 2)
    tx, tg = there(x, dtype).requires_grad_(), there(g, dtype)
    tw, tb = there(w, dtype).requires_grad_(), there(w, dtype).requires_grad_()
    F.layer_norm(tx, (width,), tw, tb).backward(tg)
    v, G = wide(tx), wide(tg)
    hat = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5)
    close(tb.grad, G.sum(0), dtype, 4)
    close(tw.grad, (G * hat).sum(0), dtype, 4)


# --- max_pool2d ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "shape, window",
    [
        ((2, 64, 9, 8), dict(kernel_size=3, stride=2, padding=1)),
        ((1, 8, 6, 6), dict(kernel_size=2)),
        ((2, 16, 7, 5), dict(kernel_size=(3, 2), stride=1, dilation=(2, 1))),
        ((2, 12, 7, 5), dict(kernel_size=3, stride=2, ceil_mode=True)),
        ((3, 24, 4, 4), dict(kernel_size=2, stride=3, padding=1)),
    ],
)
@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_max_pool_of_channels_last(shape, window, dtype, device):
    x = np.round(numbers(shape) * 2) / 2  # with ties
    last, plain = there(x, dtype, True, device).requires_grad_(), there(x, device="cpu").requires_grad_()
    got, want = F.max_pool2d(last, **window), F.max_pool2d(plain, **window)
    assert is_last(got) and np.array_equal(wide(got), wide(want))
    g = np.round(numbers(tuple(want.shape), 3) * 4) / 4
    got.backward(there(g, dtype, True, device))
    want.backward(there(g, device="cpu"))
    assert is_last(last.grad) and np.array_equal(wide(last.grad), wide(plain.grad))
    x[0, 0, 1, 1] = np.nan
    assert np.array_equal(
        wide(F.max_pool2d(there(x, dtype, True, device), **window)),
        wide(F.max_pool2d(there(x, device="cpu"), **window)),
        equal_nan=True,
    )


# --- pointwise ops on rows of vectors --------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64", "uint8", "int32"])
def test_pointwise_on_rows_of_vectors(dtype):
    rng = np.random.default_rng(5)

    def new(*shape):
        a = rng.integers(1, 9, shape)
        return a, there(a, dtype)

    (x, tx), (bias, tb), (wide_x, tw) = new(300, 64), new(64), new(300, 192)
    (deep, td), (mixed, tm) = new(3, 50, 4, 16), new(300, 64)
    assert np.array_equal(wide(tx + tb), x + bias)
    assert np.array_equal(wide(tw[:, 64:128] * tx), wide_x[:, 64:128] * x)
    assert np.array_equal(wide(tw[:, 8:72] - tx), wide_x[:, 8:72] - x) or dtype == "uint8"
    assert np.array_equal(wide(tw[:, 3:67] + tx), wide_x[:, 3:67] + x)  # not aligned
    assert np.array_equal(
        wide(td.transpose(1, 2) + td.transpose(1, 2)[:1]), deep.swapaxes(1, 2) + deep.swapaxes(1, 2)[:1]
    )
    tw[:, 128:] += tm
    wide_x[:, 128:] += mixed
    assert np.array_equal(wide(tw), wide_x)
    assert np.array_equal(wide(tx.float() + tw[:, :64]), x + wide_x[:, :64])
    assert np.array_equal(wide(strata.where(tm > 4, tw[:, 128:], tb)), np.where(mixed > 4, wide_x[:, 128:], bias))
