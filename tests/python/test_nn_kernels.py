"""The kernels that dominate networks, compared with float64 NumPy: convolutions by Winograd's method and the weights they
keep, max pooling, attention, LSTM layers; channels-last tensors stay so, and bits do not depend on the number of threads."""

import ctypes
import gc

import numpy as np
import pytest
import strata
from strata.nn import functional as F


def normal(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def tensor(array, channels_last=False):
    t = strata.tensor(array)
    return t.to(memory_format=strata.channels_last) if channels_last else t


def convolve(x, w, padding):
    """3x3, stride 1, in float64."""
    (py, px), x, w = padding, x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    h, v = x.shape[2] - 2, x.shape[3] - 2
    return sum(
        np.einsum("nchw,oc->nohw", x[:, :, i : i + h, j : j + v], w[:, :, i, j]) for i in range(3) for j in range(3)
    )


CONVOLUTIONS = [  # input, outputs, padding
    ((4, 16, 14, 14), 32, (1, 1)),
    ((2, 33, 11, 13), 17, (0, 2)),
    ((3, 20, 7, 30), 40, (2, 0)),
    ((1, 64, 30, 30), 64, (1, 1)),
]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape, outputs, padding", CONVOLUTIONS)
def test_winograd_is_close_to_the_sum_in_float64(shape, outputs, padding, channels_last):
    x, w, b = (
        normal(*shape),
        normal(outputs, shape[1], 3, 3, seed=1, scale=(9 * shape[1]) ** -0.5),
        normal(outputs, seed=2),
    )
    tx, tw = tensor(x, channels_last).requires_grad_(), tensor(w, channels_last).requires_grad_()
    chosen = strata.explain(F.conv2d, tx.detach(), tw, strata.tensor(b), 1, padding)[-1]
    assert chosen[1:] == ("winograd", "chosen")
    y = F.conv2d(tx, tw, strata.tensor(b), padding=padding)
    assert y.is_contiguous(memory_format=strata.channels_last) == channels_last
    want = convolve(x, w, padding) + b[:, None, None]
    assert np.abs(y.detach().numpy() - want).max() < 2e-5  # values are of size 1
    g = normal(*want.shape, seed=3)
    y.backward(strata.tensor(g))
    turned = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    want = convolve(g, turned, (2 - padding[0], 2 - padding[1]))
    assert np.abs(tx.grad.numpy() - want).max() < 2e-5 * np.sqrt(outputs / shape[1])
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    want = [
        np.einsum("nchw,nohw->oc", padded[:, :, i : i + g.shape[2], j : j + g.shape[3]], g)
        for i in range(3)
        for j in range(3)
    ]
    want = np.stack(want, -1).reshape(w.shape)
    assert np.abs(tw.grad.numpy() - want).max() < 2e-6 * np.abs(want).max() * np.sqrt(g[:, 0].size)


@pytest.mark.parametrize("batch", [1, 40])  # one piece, several
def test_winograd_finds_the_gradient_of_the_weight(batch):
    x, g = strata.tensor(normal(batch, 32, 14, 14)), strata.tensor(normal(batch, 64, 14, 14, seed=1))
    args = (64, 32, 3, 3), (1, 1), (1, 1), (1, 1), 1
    lines = strata.explain(strata._C.ops["_convolution_weight_grad"], x, g, *args)
    assert lines[-1][1:] == ("winograd", "chosen")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("outputs", [16, 37])
@pytest.mark.parametrize("stride, padding, dilation", [(1, 1, 1), (2, 0, 1), ((1, 3), (2, 1), (2, 1))])
def test_few_channels_are_summed_window_by_window(channels, outputs, stride, padding, dilation):
    x, w, b = normal(3, channels, 21, 30), normal(outputs, channels, 3, 3, seed=1), normal(outputs, seed=2)
    args = strata.tensor(b), stride, padding, dilation
    last = tensor(x, True)
    assert strata.explain(F.conv2d, last, strata.tensor(w), *args)[-1][1:] == ("shallow", "chosen")
    wide = [strata.tensor(a.astype(np.float64)) for a in (x, w, b)]
    want = F.conv2d(*wide, stride, padding, dilation).numpy()  # float64 takes another path
    y = F.conv2d(last, strata.tensor(w), *args)
    assert y.is_contiguous(memory_format=strata.channels_last)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)


def numpy_view(w):
    w.numpy()[...] *= 2


def pointer(w):
    (ctypes.c_float * w.numel()).from_address(w.data_ptr())[5] += 1


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.mul_(2),
        lambda w: w[3].mul_(5),
        lambda w: w.detach().view(-1)[7:9].add_(1),
        lambda w: w.data.mul_(2),
        lambda w: w.copy_(w.flip(0)),
        numpy_view,
        pointer,
    ],
    ids=["in place", "row", "view", "data", "copy", "numpy", "pointer"],
)
@pytest.mark.parametrize("kernel", [3, 1])  # Winograd's transformed weights; oneDNN's order
def test_kept_weights_follow_every_change(change, kernel):
    x = strata.tensor(normal(2, 32, 12, 12)).to(memory_format=strata.channels_last)
    w = strata.tensor(normal(48, 32, kernel, kernel, seed=1))
    if change in (numpy_view, pointer):
        change(w)  # the address is known before anything is kept, too
    with strata.no_grad():
        for _ in range(4):
            before = F.conv2d(x, w)
        for _ in range(3):
            change(w)
            fresh = F.conv2d(x, strata.tensor(w.tolist()))
            assert not np.array_equal(before.numpy(), fresh.numpy())
            for _ in range(3):
                assert np.array_equal(F.conv2d(x, w).numpy(), fresh.numpy())
            before = fresh


def test_kept_weights_go_with_their_tensor():
    x = strata.tensor(normal(2, 32, 12, 12))
    seen = []
    with strata.no_grad():
        for seed in range(6):  # the allocator gives the same block again and again
            w = strata.tensor(normal(48, 32, 3, 3, seed=seed))
            y = [F.conv2d(x, w).numpy() for _ in range(3)]
            assert np.array_equal(y[0], y[1]) and np.array_equal(y[1], y[2])
            assert np.abs(y[2] - convolve(x.numpy(), w.numpy(), (0, 0))).max() < 1e-3
            seen.append(strata.memory_stats()["allocated_bytes"])
            del w, y
            gc.collect()
    assert max(seen[1:]) <= seen[0] + (1 << 16)


def test_training_keeps_no_weights():
    x, w = strata.tensor(normal(2, 32, 12, 12)), strata.tensor(normal(48, 32, 3, 3)).requires_grad_()
    held = []
    for _ in range(4):
        F.conv2d(x, w).sum().backward()
        with strata.no_grad():
            w -= 0.01 * w.grad
        w.grad = None
        held.append(strata.memory_stats()["allocated_bytes"])
    assert max(held) - held[0] < 1 << 16


def pool(x, kernel, stride, padding):
    """Largest values, and the gradient of their sum weighted by 0, 1, 2, …; NaN wins, of equals the first."""
    n, c, h, w = x.shape
    oh, ow = (h + 2 * padding - kernel) // stride + 1, (w + 2 * padding - kernel) // stride + 1
    y, g = np.empty((n, c, oh, ow), x.dtype), np.zeros(x.shape)
    for k, (a, b, i, j) in enumerate(np.ndindex(n, c, oh, ow)):
        y0, x0 = max(0, i * stride - padding), max(0, j * stride - padding)
        window = x[a, b, y0 : i * stride - padding + kernel, x0 : j * stride - padding + kernel]
        at = np.unravel_index(np.argmax(window), window.shape)  # argmax gives the first NaN if there is one
        y[a, b, i, j] = window[at]
        g[a, b, y0 + at[0], x0 + at[1]] += k % 101
    return y, g


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 40, 9, 17), (1, 16, 7, 40)])
@pytest.mark.parametrize("kernel, stride, padding", [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_max_pool2d_against_numpy(shape, kernel, stride, padding, channels_last):
    x = normal(*shape)
    x[0, 1, 2, 3] = np.nan
    x[0, 0, 4:6] = 1.0  # ties
    t = tensor(x, channels_last).requires_grad_()
    y = F.max_pool2d(t, kernel, stride, padding)
    assert y.is_contiguous(memory_format=strata.channels_last) == channels_last
    want, want_grad = pool(x, kernel, stride, padding)
    assert np.array_equal(y.detach().numpy(), want, equal_nan=True)
    with strata.no_grad():
        assert np.array_equal(F.max_pool2d(t, kernel, stride, padding).numpy(), want, equal_nan=True)
    y.backward(strata.tensor((np.arange(want.size) % 101).reshape(want.shape).astype(np.float32)))
    assert np.array_equal(t.grad.numpy(), want_grad)


def test_one_channel_follows_the_memory_format_asked_for():
    x, w = strata.tensor(normal(2, 1, 8, 8)), strata.tensor(normal(4, 1, 3, 3))
    assert F.conv2d(x, w).is_contiguous()
    last = F.conv2d(x.to(memory_format=strata.channels_last), w)
    assert last.is_contiguous(memory_format=strata.channels_last) and not last.is_contiguous()
    np.testing.assert_allclose(last.numpy(), F.conv2d(x, w).numpy(), rtol=1e-5, atol=1e-5)


def test_batch_norm_in_evaluation_keeps_channels_last():
    x, mean, var, gain = normal(2, 5, 3, 4), normal(5, seed=1), np.abs(normal(5, seed=2)) + 1, normal(5, seed=3)
    y = F.batch_norm(tensor(x, True), strata.tensor(mean), strata.tensor(var), strata.tensor(gain), None)
    assert y.is_contiguous(memory_format=strata.channels_last)
    shaped = [a[:, None, None].astype(np.float64) for a in (mean, var, gain)]
    np.testing.assert_allclose(y.numpy(), (x - shaped[0]) / np.sqrt(shaped[1] + 1e-5) * shaped[2], rtol=1e-5, atol=1e-6)


def attend(q, k, v, causal, scale):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    s = q @ k.swapaxes(-1, -2) * scale
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ v, w / w.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "rows, columns, width, values", [(5, 5, 8, 8), (100, 130, 20, 33), (130, 60, 64, 16), (60, 1100, 16, 16)]
)
def test_attention_and_its_gradients_against_float64(rows, columns, width, values, causal):
    shapes = ((2, 3, rows, width), (2, 3, columns, width), (2, 3, columns, values))
    q, k, v = (normal(*s, seed=i) for i, s in enumerate(shapes))
    # In memory [batch, position, head, feature], as heads lie after a projection.
    tensors = [strata.tensor(a.swapaxes(1, 2).copy()).transpose(1, 2).requires_grad_() for a in (q, k, v)]
    y = F.scaled_dot_product_attention(*tensors, is_causal=causal)
    want, w = attend(q, k, v, causal, width**-0.5)
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-4, atol=1e-5)
    g = normal(*want.shape, seed=4)
    y.backward(strata.tensor(g))
    slope = g @ v.astype(np.float64).swapaxes(-1, -2)
    s = w * (slope - (slope * w).sum(-1, keepdims=True)) * width**-0.5
    for t, expected in zip(tensors, (s @ k, s.swapaxes(-1, -2) @ q, w.swapaxes(-1, -2) @ g), strict=True):
        np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-3, atol=1e-4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_direction(x, w_ih, w_hh, b_ih, b_hh, reverse):
    h = c = np.zeros((x.shape[1], w_hh.shape[1]))
    out = np.empty((*x.shape[:2], w_hh.shape[1]))
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        i, f, g, o = np.split(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        out[t] = h = sigmoid(o) * np.tanh(c)
    return out, h, c


@pytest.mark.parametrize("batch, hidden", [(1, 5), (13, 36), (16, 96)])
def test_lstm_of_two_layers_both_ways_against_float64(batch, hidden):
    x = normal(7, batch, 10)
    shapes = [
        ((4 * hidden, n), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)) for n in (10, 10, 2 * hidden, 2 * hidden)
    ]
    params = [normal(*s, seed=i * 4 + j, scale=0.2) for i, group in enumerate(shapes) for j, s in enumerate(group)]
    zeros = strata.zeros(4, batch, hidden)
    tensors = [strata.tensor(p).requires_grad_() for p in params]
    y, h, c = strata.lstm(strata.tensor(x), (zeros, zeros), tensors, True, 2, 0.0, True, True, False)
    layer, states = x.astype(np.float64), []
    for n in range(2):
        ways = [lstm_direction(layer, *params[(2 * n + d) * 4 :][:4], reverse=d == 1) for d in range(2)]
        layer = np.concatenate([ways[0][0], ways[1][0]], -1)
        states += ways
    np.testing.assert_allclose(y.detach().numpy(), layer, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(h.detach().numpy(), [s[1] for s in states], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(c.detach().numpy(), [s[2] for s in states], rtol=1e-4, atol=1e-5)
    with strata.no_grad():  # nothing is kept for a gradient, and the values are the same
        again = strata.lstm(strata.tensor(x), (zeros, zeros), tensors, True, 2, 0.0, True, True, False)
    assert np.array_equal(again[0].numpy(), y.detach().numpy()) and np.array_equal(again[2].numpy(), c.detach().numpy())


def test_lstm_gradients_of_gradients_pass_through_the_layer():
    def loss(x, w_ih, w_hh, h):
        y, hn, cn = strata.lstm(x, (h, h), [w_ih, w_hh], False, 1, 0.0, True, False, False)
        return y.square().sum() + (hn * cn).sum()

    inputs = [
        strata.tensor(normal(*s, seed=i).astype(np.float64))
        for i, s in enumerate([(3, 2, 3), (8, 3), (8, 2), (1, 2, 2)])
    ]
    inputs = [t.requires_grad_() for t in inputs]
    assert strata.autograd.gradcheck(loss, inputs) and strata.autograd.gradgradcheck(loss, inputs)


def winograd_step():
    x, w = strata.tensor(normal(9, 32, 13, 15)).requires_grad_(), strata.tensor(normal(40, 32, 3, 3)).requires_grad_()
    y = F.conv2d(x, w, padding=1)
    y.square().sum().backward()
    return y, x.grad, w.grad


def attention_step():
    q, k, v = (strata.tensor(normal(3, 2, 150, 32, seed=i)).requires_grad_() for i in range(3))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y.square().sum().backward()
    return y, q.grad, k.grad, v.grad


def lstm_step():
    x, w, u = (
        strata.tensor(normal(*s, scale=0.1)).requires_grad_() for s in [(9, 16, 40), (4 * 150, 40), (4 * 150, 150)]
    )
    state = strata.zeros(1, 16, 150)
    y = strata.lstm(x, (state, state), [w, u], False, 1, 0.0, True, False, False)[0]
    y.square().sum().backward()
    return y, x.grad, w.grad, u.grad


def pool_step():
    x = tensor(normal(20, 48, 30, 30), True).requires_grad_()
    y = F.max_pool2d(x, 3, 2, 1)
    y.square().sum().backward()
    return y, x.grad


@pytest.mark.parametrize("step", [winograd_step, attention_step, lstm_step, pool_step])
def test_bits_do_not_depend_on_the_number_of_threads(step):
    before, results = strata.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            strata.set_num_threads(threads)
            results.append([t.detach().numpy().tobytes() for t in step()])
    finally:
        strata.set_num_threads(before)
    assert all(r == results[0] for r in results)
