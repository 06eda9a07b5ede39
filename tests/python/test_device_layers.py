"""Norms, pools, resampling and other layers on the virtual GPU against float64 NumPy or the CPU, at sizes where kernels take other
paths than for the samples of the records: long rows, many parts, odd sizes, strided inputs."""

import os

import numpy as np
import pytest
import strata

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
TOLERANCE = {strata.float32: (1e-5, 1e-5), strata.float64: (1e-11, 1e-11), strata.bfloat16: (2e-2, 2e-2)}


def array(shape, seed=0, shift=0.0):
    return np.random.default_rng(seed).standard_normal(shape) + shift


def there(a, dtype=strata.float32, grad=False):
    t = strata.tensor(a).to(dtype).to(DEVICE)
    return t.requires_grad_() if grad else t


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def close(got, want, dtype=strata.float32, scale=1.0):
    rtol, atol = TOLERANCE[dtype]
    np.testing.assert_allclose(wide(got), want, rtol=rtol, atol=atol * scale)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows, n", [(3, 1), (5, 7), (2, 64), (33, 100), (2, 1023), (3, 1024), (2, 4100), (1, 20000)])
def test_layer_norm_and_its_gradients(rows, n, dtype):
    x, w, b, g = array((rows, n), 1, 3.0), array(n, 2), array(n, 3), array((rows, n), 4)
    x, w, b, g = (wide(there(a, dtype)) for a in (x, w, b, g))
    tx, tw, tb = (there(a, dtype, grad=True) for a in (x, w, b))
    y = F.layer_norm(tx, (n,), tw, tb)
    y.backward(there(g, dtype))
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normal = (x - x.mean(1, keepdims=True)) * rstd
    gw = g * w
    close(y, normal * w + b, dtype)
    want = rstd * (gw - gw.mean(1, keepdims=True) - normal * (gw * normal).mean(1, keepdims=True))
    close(tx.grad, want, dtype, np.abs(want).max())
    close(tw.grad, (g * normal).sum(0), dtype, rows)
    close(tb.grad, g.sum(0), dtype, rows)


@pytest.mark.parametrize("n", [6, 512, 9000])
def test_rms_norm(n):
    x, w = array((3, n), 1), array(n, 2)
    want = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * w
    close(F.rms_norm(there(x), (n,), there(w), 1e-6), want)


@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 7), (3, 4, 8, 8), (40, 2, 64, 40)])
def test_batch_norm_and_its_gradients(shape):
    c, dims = shape[1], (0, *range(2, len(shape)))
    spread = (1, c) + (1,) * (len(shape) - 2)
    x, w, b, g = array(shape, 1, 10.0), array(c, 2), array(c, 3), array(shape, 4)
    mean, var = there(np.zeros(c)), there(np.ones(c))
    tx, tw, tb = there(x, grad=True), there(w, grad=True), there(b, grad=True)
    y = F.batch_norm(tx, mean, var, tw, tb, training=True, momentum=0.25)
    y.backward(there(g))
    x = wide(tx)
    n = x.size / c
    close(mean, 0.25 * x.mean(dims))
    close(var, 0.75 + 0.25 * x.var(dims) * n / (n - 1))
    rstd = 1 / np.sqrt(x.var(dims, keepdims=True) + 1e-5)
    normal = (x - x.mean(dims, keepdims=True)) * rstd
    close(y, normal * w.reshape(spread) + b.reshape(spread), scale=10)
    gw = g * w.reshape(spread)
    want = rstd * (gw - gw.mean(dims, keepdims=True) - normal * (gw * normal).mean(dims, keepdims=True))
    close(tx.grad, want, scale=10)
    close(tw.grad, (g * normal).sum(dims), scale=n**0.5 * 10)
    close(tb.grad, g.sum(dims), scale=n**0.5 * 10)
    evaluated = F.batch_norm(there(x), mean, var, there(w), there(b))
    want = (x - wide(mean).reshape(spread)) / np.sqrt(wide(var).reshape(spread) + 1e-5)
    close(evaluated, want * w.reshape(spread) + b.reshape(spread), scale=100)


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64])
@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 2), (0, 1)])
def test_variance_of_numbers_far_from_zero(dim, dtype):
    x = wide(there(array((40, 30, 52), 5, 1000.0), dtype))
    var, mean = strata.var_mean(there(x, dtype), dim=dim)
    rtol = 1e-5 if dtype is strata.float32 else 1e-12
    np.testing.assert_allclose(wide(var), x.var(dim, ddof=1), rtol=rtol)
    np.testing.assert_allclose(wide(mean), x.mean(dim), rtol=1e-6 if dtype is strata.float32 else 1e-13)


def test_moments_of_long_vectors_strided_inputs_and_infinities():
    x = array(300_001, 6, -7.0)
    np.testing.assert_allclose(wide(there(x).var()), x.var(ddof=1), rtol=1e-5)
    y = there(x[:3000].reshape(50, 60)).t()[::2]
    np.testing.assert_allclose(wide(y.std(0)), x[:3000].reshape(50, 60).T[::2].std(0, ddof=1), rtol=1e-5)
    x[3] = np.inf
    var, mean = strata.var_mean(there(x))
    assert np.isnan(wide(var)) and np.isposinf(wide(mean))
    assert np.isnan(wide(strata.empty(0, device=DEVICE).var()))


def cpu_and_device(f, *arrays, dtype=strata.float64):
    """f and its gradients on the CPU and on the device."""
    results = []
    for device in ("cpu", DEVICE):
        inputs = [strata.tensor(a).to(dtype).to(device).requires_grad_() for a in arrays]
        y = f(*inputs)
        y.backward(strata.tensor(array(tuple(y.shape), 9)).to(dtype).to(device))
        results.append([wide(t) for t in (y, *(i.grad for i in inputs))])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x: F.avg_pool2d(x, 5, 1, 2),
        lambda x: F.avg_pool2d(x, 3, 2, divisor_override=4),
        lambda x: F.adaptive_avg_pool2d(x, (7, 5)),
        lambda x: F.adaptive_avg_pool2d(x, 40),
        lambda x: F.adaptive_max_pool2d(x, (3, 11)),
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[0],
        lambda x: F.max_pool2d(x, 2, 1, dilation=3, return_indices=True)[0],
        lambda x: F.lp_pool2d(x.abs() + 0.1, 3, 4),
        lambda x: F.interpolate(x, (40, 9), mode="bilinear"),
        lambda x: F.interpolate(x, scale_factor=2.5, mode="bicubic"),
        lambda x: F.interpolate(x, (9, 60), mode="bicubic", antialias=True),
        lambda x: F.interpolate(x, (5, 61), mode="nearest-exact"),
        lambda x: F.interpolate(x, (13, 13), mode="area"),
        lambda x: F.unfold(x, (3, 4), dilation=2, padding=1, stride=(2, 3)),
        lambda x: F.fold(F.unfold(x, 3, padding=1), (20, 31), 3, padding=1),
        lambda x: F.pixel_unshuffle(x[:, :, :, :30], 2),
        lambda x: F.pad(x, (2, 3, 1, 0), mode="constant", value=0.5),
        lambda x: F.group_norm(x, 3),
        lambda x: F.instance_norm(x),
    ],
    ids=range(20),
)
def test_layers_of_images(f):
    cpu_and_device(f, array((2, 6, 20, 31), 1))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
def test_grid_sample(mode, padding, corners):
    x, grid = array((2, 19, 9, 12), 1), 0.8 * array((2, 13, 11, 2), 2)
    cpu_and_device(lambda a, b: F.grid_sample(a, b, mode, padding, corners), x, grid)


def test_grid_sample_of_volumes_and_strange_places():
    cpu_and_device(lambda a, b: F.grid_sample(a, b), array((1, 2, 4, 5, 6), 1), array((1, 3, 4, 5, 3), 2))
    grid = np.full((1, 2, 3, 2), np.nan)
    grid[0, 1] = np.inf
    assert np.all(wide(F.grid_sample(there(array((1, 2, 4, 4))), there(grid))) == 0)


def test_unpooling_puts_values_back_and_checks_places():
    x = strata.tensor(array((2, 3, 8, 8), 1))
    y, places = F.max_pool2d(x.to(DEVICE), 2, return_indices=True)
    back = F.max_unpool2d(y, places, 2)
    want, at = F.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(at.numpy(), places.cpu().numpy())
    np.testing.assert_array_equal(wide(back), F.max_unpool2d(want, at, 2).numpy())
    with pytest.raises(RuntimeError, match="invalid max index: 999"):
        F.max_unpool2d(y, places * 0 + 999, 2).cpu()


def test_overlapping_largest_values_add_their_gradients_in_order():
    x = np.zeros((1, 1, 3, 500))
    x[..., 250] = 1e3
    cpu_and_device(lambda t: F.max_pool2d(t, (3, 401), 1, return_indices=True)[0], x)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    q, k, v = array((2, 3, 17, 8), 1), array((2, 3, 23, 8), 2), array((2, 3, 23, 5), 3)
    cpu_and_device(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=causal), q, k, v)


@pytest.mark.parametrize("kind", [strata.nn.LSTM, strata.nn.GRU, strata.nn.RNN])
def test_recurrent_layers_of_both_directions(kind):
    strata.manual_seed(3)
    net = kind(5, 7, num_layers=2, bidirectional=True).to(strata.float64)
    x = strata.tensor(array((6, 3, 5), 1))
    results = []
    for device in ("cpu", DEVICE):
        net = net.to(device)
        net.zero_grad()
        y = net(x.to(device))[0]
        (y * y).sum().backward()
        results.append([wide(y), *(wide(p.grad) for p in net.parameters())])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss(zero_infinity):
    lp = strata.tensor(array((12, 4, 6), 1)).log_softmax(-1)
    targets = strata.tensor([[1, 2, 2, 5], [3, 1, 4, 0], [5, 5, 5, 5], [1, 1, 1, 1]])
    lengths = [12, 9, 10, 5], [4, 3, 0, 4]  # the last target is longer than its input allows

    def loss(t):
        r = F.ctc_loss(
            t, targets.to(t.device), *map(strata.tensor, lengths), zero_infinity=zero_infinity, reduction="none"
        )
        return strata.where(strata.isinf(r), strata.zeros_like(r), r)

    want, got = loss(lp), loss(lp.to(DEVICE))
    np.testing.assert_allclose(wide(got), want.numpy(), rtol=1e-12)
    if zero_infinity:
        cpu_and_device(lambda t: F.ctc_loss(t, targets.to(t.device), *lengths, zero_infinity=True), lp.numpy())
    with pytest.raises(RuntimeError, match="label 6 is out of range for 6 classes"):
        F.ctc_loss(lp.to(DEVICE), there(targets.numpy() * 0 + 6, strata.int64), *lengths).cpu()


def test_clipping_gradients_by_their_norm():
    grads = [array((3, 4), 1), array(5, 2), np.zeros(0)]
    total = np.sqrt(sum((g**2).sum() for g in grads))
    parameters = [strata.nn.Parameter(there(g)) for g in grads]
    for p, g in zip(parameters, grads, strict=True):
        p.grad = there(g)
    norm = strata.nn.utils.clip_grad_norm_(parameters, 0.5)
    assert norm.device.type == DEVICE
    np.testing.assert_allclose(wide(norm), total, rtol=1e-6)
    for p, g in zip(parameters, grads, strict=True):
        np.testing.assert_allclose(wide(p.grad), g * 0.5 / total, rtol=1e-5)
    parameters[0].grad = there(np.full((3, 4), np.inf))
    with pytest.raises(RuntimeError, match="non-finite"):
        strata.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)


def test_decompositions_run_on_the_host_and_say_so():
    a = array((3, 5, 5), 1) + 5 * np.eye(5)
    t = there(a, strata.float64)
    np.testing.assert_allclose(wide(strata.linalg.inv(t)), np.linalg.inv(a), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(wide(strata.linalg.det(t)), np.linalg.det(a), rtol=1e-9)
    np.testing.assert_allclose(wide(strata.linalg.svdvals(t)), np.linalg.svd(a, compute_uv=False), rtol=1e-9)
    names = {k for r in strata._C._records() if r["name"] == "_linalg_svd" for k in r["cuda_kernels"]}
    assert all(name.endswith("_on_host") for name in names)


def test_binary_cross_entropy_wants_probabilities():
    x, t = np.linspace(0, 1, 11), np.linspace(1, 0, 11)
    with np.errstate(divide="ignore"):
        want = -(t * np.maximum(np.log(x), -100) + (1 - t) * np.maximum(np.log1p(-x), -100))
    close(F.binary_cross_entropy(there(x), there(t), reduction="none"), want)
    with pytest.raises(RuntimeError, match=r"between 0 and 1, found (1\.[15]|-0\.5)"):
        F.binary_cross_entropy(there(x + 0.5), there(t)).cpu()
        getattr(strata, DEVICE).synchronize()


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_packed_sequences(kind):
    from strata.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    strata.manual_seed(0)
    x, lengths = strata.randn(5, 3, 4), strata.tensor([2, 5, 3])
    layer = getattr(strata.nn, kind)(4, 6)

    def run(x):
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        assert packed.batch_sizes.device.type == "cpu" and packed.data.device == x.device
        padded, found = pad_packed_sequence(layer.to(x.device)(packed)[0])
        assert found.tolist() == lengths.tolist()
        return padded

    want = run(x).detach()
    close(run(x.to(DEVICE)).detach(), want.numpy())


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64])
@pytest.mark.parametrize("n, c, o, size", [(2, 3, 8, 17), (1, 4, 4, 20), (4, 8, 16, 14)])
def test_channels_last_convolutions_have_the_gradients_of_others(n, c, o, size, dtype):
    """The sums of the weight's gradient are cut into parts here, and its layout is that of the input."""
    x, w, g = array((n, c, size, size), 1), array((o, c, 3, 3), 2), array((n, o, size, size), 3)
    found = []
    for layout in (strata.contiguous_format, strata.channels_last):
        tx, tw = (
            strata.tensor(a).to(dtype).to(DEVICE).contiguous(memory_format=layout).requires_grad_() for a in (x, w)
        )
        F.conv2d(tx, tw, padding=1).backward(there(g, dtype).contiguous(memory_format=layout))
        found.append([wide(tx.grad), wide(tw.grad)])
    for plain, last in zip(*found, strict=True):
        scale = np.abs(plain).max()
        np.testing.assert_allclose(last, plain, rtol=1e-5, atol=(1e-5 if dtype is strata.float32 else 1e-12) * scale)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 5), 7), ((2, 3, 5, 6), (8, 12)), ((1, 2, 9, 4), (3, 1)), ((2, 1, 3, 4, 5), (4, 2, 9))]
)
def test_nearest_interpolation_copies(shape, size, dtype, mode):
    x = strata.randn(*shape).to(getattr(strata, dtype))
    want = strata.nn.functional.interpolate(x, size, mode=mode)
    assert strata.equal(strata.nn.functional.interpolate(x.to(DEVICE), size, mode=mode).cpu(), want)
    strided = x.transpose(0, 1)
    want = strata.nn.functional.interpolate(strided, size, mode=mode)
    assert strata.equal(strata.nn.functional.interpolate(x.to(DEVICE).transpose(0, 1), size, mode=mode).cpu(), want)
