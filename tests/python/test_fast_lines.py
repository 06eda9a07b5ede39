"""Fast paths of sorts, selections, transforms, norms and copies, compared with NumPy at sizes around their limits."""

import numpy as np
import pytest
import strata
from test_fast_paths import both_thread_counts, numbers

LENGTHS = [1, 5, 16, 24, 25, 63, 64, 65, 115, 300, 1023, 1025, 3000]


def awkward(rows, n, seed=0):
    """Random numbers with equal elements, zeros of both signs, infinities and, in the last row, NaN."""
    x = np.round(numbers(rows, n, seed=seed) * 20) / 8
    x[0, : n // 2] = -0.0
    if n > 4:
        x[1, 1], x[1, n - 2], x[-1, n // 2] = np.inf, -np.inf, np.nan
    return x


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dim", [0, 1])
def test_selected_elements(n, dim):
    x = awkward(7, n)
    t = strata.tensor(x if dim else np.ascontiguousarray(x.T))
    order = np.argsort(x, axis=1, kind="stable")  # NaN last
    for k in {1, (n + 1) // 2, n}:
        values, places = strata.kthvalue(t, k, dim)
        expected = np.take_along_axis(x, order[:, k - 1 : k], 1)[:, 0]
        assert np.array_equal(values.numpy(), expected, equal_nan=True)
        assert np.array_equal(places.numpy(), order[:, k - 1])
    median, _ = strata.nanmedian(t, dim)
    for row in range(7):
        real = np.sort(x[row][~np.isnan(x[row])])
        assert median.numpy()[row] == real[(len(real) - 1) // 2]
    assert np.array_equal(strata.sort(t, dim)[1].numpy(), order if dim else order.T)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("largest", [True, False])
def test_top_elements_of_rows_and_columns(n, largest):
    x = awkward(5, n, seed=1)
    keys = np.where(np.isnan(x), np.inf, x) if largest else x
    order = np.lexsort((np.arange(n) * np.ones((5, 1)), np.where(np.isnan(x), 0, 1), -keys), axis=1)
    if not largest:
        order = np.argsort(x, axis=1, kind="stable")
    for k in {1, min(2, n), min(64, n), min(65, n)}:
        values, places = strata.topk(strata.tensor(x), k, 1, largest)
        assert np.array_equal(places.numpy(), order[:, :k])
        assert np.array_equal(values.numpy(), np.take_along_axis(x, order[:, :k], 1), equal_nan=True)
        narrow = strata.tensor(x).to(strata.bfloat16)
        expected = strata.topk(narrow.to(strata.float32), k, 1, largest)
        got = strata.topk(narrow, k, 1, largest)
        assert np.array_equal(got[1].numpy(), expected[1].numpy())
        assert np.array_equal(got[0].to(strata.float32).numpy(), expected[0].numpy(), equal_nan=True)
        whole = np.where(np.isnan(x), 7, np.clip(x, -99, 99) * 8).astype(np.int64) << 40
        expected = np.argsort(-whole if largest else whole, axis=1, kind="stable")[:, :k]
        assert np.array_equal(strata.topk(strata.tensor(whole), k, 1, largest)[1].numpy(), expected)
        turned = strata.topk(strata.tensor(np.ascontiguousarray(x.T)), k, 0, largest)[1]
        assert np.array_equal(turned.numpy(), order[:, :k].T)


@pytest.mark.parametrize("high", [1, 3, 50, 100000])
def test_modes(high):
    x = np.random.default_rng(high).integers(-high, high, (9, 203))
    values, places = strata.mode(strata.tensor(x), 1)
    for row in range(9):
        found, counts = np.unique(x[row], return_counts=True)
        most = found[np.argmax(counts)]
        assert values.numpy()[row] == most
        assert places.numpy()[row] == np.flatnonzero(x[row] == most)[-1]


@pytest.mark.parametrize("n", [2, 3, 7, 8, 11, 30, 31, 37, 49, 77, 128])
@pytest.mark.parametrize("lines", [1, 3, 16, 33, 70])
def test_transforms_of_real_lines(n, lines):
    x = numbers(lines, n + 3)
    got = both_thread_counts(lambda: strata.fft.rfft(strata.tensor(x), n).numpy())
    assert np.allclose(got, np.fft.rfft(x, n), atol=1e-4)
    y = numbers(2, n, lines, seed=1)
    assert np.allclose(strata.fft.rfft(strata.tensor(y), dim=1).numpy(), np.fft.rfft(y, axis=1), atol=1e-4)
    z = y.astype(np.float64)
    assert np.allclose(strata.fft.rfft(strata.tensor(z), dim=1).numpy(), np.fft.rfft(z, axis=1), atol=1e-12)
    assert np.allclose(strata.fft.fft(strata.tensor(y), dim=1).numpy(), np.fft.fft(y, axis=1), atol=1e-4)


@pytest.mark.parametrize("size", [7, 8, 37, 64])
@pytest.mark.parametrize("onesided", [True, False])
def test_spectra_of_frames(size, onesided):
    x, window, hop = numbers(3, 700), np.abs(numbers(size, seed=1)), 3
    given = dict(center=False, onesided=onesided, return_complex=True)
    got = both_thread_counts(
        lambda: strata.stft(strata.tensor(x), size, hop, window=strata.tensor(window), **given).numpy()
    )
    frames = np.lib.stride_tricks.sliding_window_view(x, size, 1)[:, ::hop] * window
    expected = (np.fft.rfft if onesided else np.fft.fft)(frames).swapaxes(1, 2)
    assert np.allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("samples, channels, pixels, groups", [(1, 6, 5, 2), (200, 8, 1, 4), (150, 6, 17, 3), (3, 4, 65, 2), (2, 2, 5000, 1)])  # fmt: skip
def test_norms_of_groups(samples, channels, pixels, groups):
    x, g = numbers(samples, channels, pixels) * 3 + 1, numbers(samples, channels, pixels, seed=1)
    weight, bias = numbers(channels, seed=2), numbers(channels, seed=3)

    def run():
        t = [strata.tensor(a).requires_grad_() for a in (x, weight, bias)]
        y = strata.nn.functional.group_norm(t[0], groups, t[1], t[2])
        y.backward(strata.tensor(g))
        return np.concatenate([a.detach().numpy().ravel() for a in (y, *(u.grad for u in t))])

    got = both_thread_counts(run)
    wide = x.astype(np.float64).reshape(samples, groups, -1)
    mean, rstd = wide.mean(2, keepdims=True), 1 / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    normal = (wide - mean) * rstd
    planes = normal.reshape(x.shape)
    h = (g * weight[:, None]).reshape(wide.shape)
    gx = rstd * (h - h.mean(2, keepdims=True) - normal * (h * normal).mean(2, keepdims=True))
    expected = [planes * weight[:, None] + bias[:, None], gx, (g * planes).sum((0, 2)), g.sum((0, 2))]
    assert np.allclose(got, np.concatenate([e.ravel() for e in expected]), rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("m, k, n", [(1, 5, 7), (4, 3, 40), (5, 16, 17), (33, 17, 16), (70, 40, 9), (65, 200, 35)])
def test_products_of_integers(m, k, n):
    r = np.random.default_rng(m)
    a, b, c = (r.integers(-(2**62), 2**62, s) for s in ((3, m, k), (3, k, n), (3, m, n)))
    with np.errstate(over="ignore"):
        product = a @ b  # wraps
        got = both_thread_counts(lambda: (strata.tensor(a) @ strata.tensor(b)).numpy())
        assert np.array_equal(got, product)
        got = strata.baddbmm(strata.tensor(c), strata.tensor(a), strata.tensor(b), beta=2, alpha=3).numpy()
        assert np.array_equal(got, 2 * c + 3 * product)
    turned = strata.tensor(np.ascontiguousarray(b.swapaxes(1, 2))).transpose(1, 2)
    assert np.array_equal((strata.tensor(a) @ turned).numpy(), product)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [3, 15, 16, 40, 130, 700])
def test_copies_of_rows(dtype, n):
    x = (numbers(6, 9, n) * 3).astype(dtype)
    t = strata.tensor(x)
    for dims in ([2], [1], [0, 2], [0, 1, 2]):
        assert np.array_equal(t.flip(dims).numpy(), np.flip(x, dims))
    assert np.array_equal(t.transpose(0, 1).contiguous().numpy(), x.swapaxes(0, 1))
    one = t[:, :, :1].expand(6, 9, n).contiguous()
    assert np.array_equal(one.numpy(), np.broadcast_to(x[:, :, :1], x.shape))
    assert np.array_equal(strata.full((5, n), x[0, 0, 0].item(), dtype=t.dtype).numpy(), np.full((5, n), x[0, 0, 0]))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding_and_its_gradient(mode, dims):
    names = {"edge": "replicate", "wrap": "circular", "reflect": "reflect"}
    x = numbers(2, 3, *(9, 7, 33)[-dims:])
    widths = [(0, 0), (0, 0), *[(2, 3), (1, 0), (3, 2)][-dims:]]
    pad = [n for pair in reversed(widths[2:]) for n in pair]
    t = strata.tensor(x).requires_grad_()
    y = strata.nn.functional.pad(t, pad, mode=names[mode])
    assert np.array_equal(y.detach().numpy(), np.pad(x, widths, mode))
    g = numbers(*y.shape, seed=1)
    y.backward(strata.tensor(g))
    places = np.pad(np.arange(x.size).reshape(x.shape), widths, mode)
    expected = np.bincount(places.ravel(), g.ravel(), x.size).reshape(x.shape)
    assert np.allclose(t.grad.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(100, 70), (70, 100), (3, 65, 64)])
def test_pseudo_inverses_of_full_and_low_rank(shape):
    x = numbers(*shape)
    expected = np.linalg.pinv(x.astype(np.float64), rcond=1e-5)
    assert np.allclose(
        strata.linalg.pinv(strata.tensor(x), rtol=1e-5).numpy(), expected, atol=1e-2 * np.abs(expected).max()
    )
    x[..., :, 1] = x[..., :, 0]  # of low rank: by singular values
    expected = np.linalg.pinv(x.astype(np.float64), rcond=1e-5)
    assert np.allclose(
        strata.linalg.pinv(strata.tensor(x), rtol=1e-5).numpy(), expected, atol=1e-2 * np.abs(expected).max()
    )


@pytest.mark.parametrize("shape", [(5, 5), (3, 70, 70)])
def test_gradients_of_solve_and_lu_are_those_of_the_graph(shape):
    eye = np.eye(shape[-1]) * shape[-1]
    a, b = numbers(*shape).astype(np.float64) + eye, numbers(*shape[:-1], 4, seed=1).astype(np.float64)
    for f in (strata.linalg.solve, lambda x, y: strata.linalg.lu_solve(*strata.linalg.lu_factor(x), y)):
        inputs = [strata.tensor(v).requires_grad_() for v in (a, b)]
        y = f(*inputs)
        plain = strata.autograd.grad(y, inputs, strata.ones_like(y), retain_graph=True)
        graph = strata.autograd.grad(y, inputs, strata.ones_like(y), create_graph=True)
        x = np.linalg.solve(a, b)
        gb = np.linalg.solve(a.swapaxes(-1, -2), np.ones_like(b))
        for got in (plain, graph):
            assert np.allclose(got[1].detach().numpy(), gb)
            assert np.allclose(got[0].detach().numpy(), -gb @ x.swapaxes(-1, -2))


@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 64, 100, 1000])
def test_rounding_to_bfloat16(n):
    bits = np.random.default_rng(n).integers(0, 2**32, n, dtype=np.uint32)
    x = bits.view(np.float32)
    x[: n // 3] = [1 + 2.0**-8, 1 + 3 * 2.0**-8, np.inf, 3e38, -0.0, 1e-40, np.nan][n % 7]
    wide = bits.astype(np.uint64)
    rounded = (wide + 0x7FFF + (wide >> 16 & 1)) >> 16
    expected = (rounded << 16).astype(np.uint32).view(np.float32)
    got = strata.tensor(x).to(strata.bfloat16).to(strata.float32).numpy()
    nan = np.isnan(x)
    assert np.array_equal(np.isnan(got), nan)
    assert np.array_equal(got[~nan], expected[~nan])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_infinities_of_integers(dtype):
    x = strata.tensor((numbers(5, 70) * 3).astype(dtype)).t()
    for f, value in (
        (strata.isinf, False),
        (strata.isposinf, False),
        (strata.isneginf, False),
        (strata.isfinite, True),
    ):
        assert np.array_equal(f(x).numpy(), np.full((70, 5), value))
