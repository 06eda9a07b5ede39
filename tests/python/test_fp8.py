"""Linear layers in float8 with delayed scaling, against a model in NumPy that rounds by a table of all values."""

import copy
import io
import pickle
import threading

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from strata import nn
from strata.amp import fp8
from strata.utils.checkpoint import checkpoint

DEVICES = ["cpu", DEVICE]
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def values_of(kind):
    """All finite values of a float8 format, sorted, from its definition."""
    exponent_bits, bias = (4, 7) if kind == "e4m3" else (5, 15)
    mantissa_bits = 7 - exponent_bits
    found = {0.0}
    for e in range(2**exponent_bits):
        for m in range(2**mantissa_bits):
            if kind == "e4m3" and (e, m) == (15, 7):
                continue  # NaN
            if kind == "e5m2" and e == 31:
                continue  # infinity and NaN
            fraction = m / 2**mantissa_bits
            v = 2.0 ** (1 - bias) * fraction if e == 0 else 2.0 ** (e - bias) * (1 + fraction)
            found |= {v, -v}
    return np.array(sorted(found))


TABLES = {kind: values_of(kind) for kind in LARGEST}


def rounded(x, kind):
    """The nearest value of the format, ties to the even mantissa; saturating."""
    table = TABLES[kind]
    x = np.clip(np.asarray(x, np.float64), -LARGEST[kind], LARGEST[kind])
    above = np.clip(np.searchsorted(table, x), 1, len(table) - 1)
    low, high = table[above - 1], table[above]
    even = (above - np.searchsorted(table, 0.0)) % 2 == 0  # neighbours alternate, and 0 is even
    pick_high = (high - x < x - low) | ((high - x == x - low) & even)
    return np.where(pick_high, high, low)


def reference(x, w, b, g, scale):
    """Result and gradients in float64 from factors that are rounded to float8."""
    sx, sw, sg = (np.float32(s) for s in scale)
    x8, w8 = rounded(np.float32(x) * sx, "e4m3") / sx, rounded(np.float32(w) * sw, "e4m3") / sw
    g8 = rounded(np.float32(g) * sg, "e5m2") / sg
    y = x8 @ w8.T + (0 if b is None else b)
    return y, g8 @ w8, g8.T @ x8, g.sum(0)


def layer_of(i, o, device="cpu", **options):
    strata.manual_seed(0)
    return fp8.Linear(i, o, **options).to(device)


def numpy(t):
    return t.detach().cpu().float().numpy().astype(np.float64)


def test_largest_values():
    assert {kind: t.max() for kind, t in TABLES.items()} == LARGEST and len(TABLES["e4m3"]) == 253


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(6, 16, 32), (1, 1, 1), (5, 7, 3), (0, 4, 3)], ids=str)
def test_against_numpy(device, shape, bias):
    n, i, o = shape
    layer = layer_of(i, o, device, bias=bias)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = strata.tensor(rng.standard_normal((n, i)).astype(np.float32) * 3, device=device, requires_grad=True)
        g = strata.tensor(rng.standard_normal((n, o)).astype(np.float32) * 1e-3, device=device)
        scale = layer.fp8_scale.tolist()
        y = layer(x)
        layer.zero_grad()
        y.backward(g)
        b = numpy(layer.bias) if bias else None
        expected = reference(numpy(x), numpy(layer.weight), b, numpy(g), scale)
        found = [y, x.grad, layer.weight.grad] + ([layer.bias.grad] if bias else [])
        for f, e in zip(found, expected, strict=False):
            np.testing.assert_allclose(numpy(f), e, rtol=1e-5, atol=1e-6 * max(1e-3, np.abs(e).max(initial=0)))
        amax = [np.abs(numpy(t)).max(initial=0) for t in (x, layer.weight, g)]
        np.testing.assert_allclose(layer.fp8_amax.tolist(), amax, rtol=1e-6)
        fp8.update(layer)
        assert layer.fp8_amax.tolist() == [0, 0, 0]
        if n:
            top = numpy(layer.fp8_history).max(0)
            expected_scale = [LARGEST["e4m3"] / top[0], LARGEST["e4m3"] / top[1], LARGEST["e5m2"] / top[2]]
            np.testing.assert_allclose(layer.fp8_scale.tolist(), expected_scale, rtol=1e-6)


def test_both_devices_agree():
    layer = layer_of(32, 16)
    x = strata.randn(8, 32)
    there = copy.deepcopy(layer).to(DEVICE)
    for one, device in ((layer, "cpu"), (there, DEVICE)):
        for _ in range(2):
            one(x.to(device)).square().sum().backward()
            fp8.update(one)
    assert strata.equal(layer.fp8_scale[:2], there.fp8_scale[:2].cpu())
    strata.testing.assert_close(layer.weight.grad, there.weight.grad.cpu(), rtol=1e-4, atol=1e-3)


def test_the_history():
    layer = layer_of(4, 4, history_length=3, margin=1)
    seen = []
    for largest in (8.0, 2.0, 1.0, 1.0, 1.0):
        layer(strata.full((2, 4), largest))
        fp8.update(layer)
        seen.append(layer.fp8_scale[0].item())
    assert seen == [448 / v / 2 for v in (8, 8, 8, 2, 1)]  # 8 is forgotten after three steps
    assert layer.fp8_scale[2].item() == 1  # no gradient was seen
    assert layer.fp8_history.shape == (3, 3)


def test_values_out_of_range():
    layer = layer_of(2, 1, bias=False)
    with strata.no_grad():
        layer.weight.fill_(1)
    assert layer(strata.tensor([[1e6, 0.0]])).item() == 448  # saturates until the next update
    fp8.update(layer)
    assert layer(strata.tensor([[1e6, 0.0]])).item() == pytest.approx(1e6, rel=1e-3)
    scale = layer.fp8_scale.tolist()
    for bad in (float("inf"), float("nan")):
        assert np.isnan(layer(strata.tensor([[bad, 0.0]])).item())
        fp8.update(layer)
        assert layer.fp8_scale.tolist() == scale  # a step with infinities says nothing
    layer(strata.zeros(1, 2))
    fp8.update(layer)
    assert np.isfinite(layer.fp8_scale.tolist()).all()


@pytest.mark.parametrize("dtype", [strata.float32, strata.float16, strata.bfloat16], ids=str)
def test_dtypes(dtype):
    layer = layer_of(16, 8).to(dtype)
    assert layer.fp8_scale.dtype == layer.fp8_history.dtype == strata.float32
    x = strata.randn(2, 3, 16, dtype=dtype, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert y.dtype == dtype and y.shape == (2, 3, 8) and x.grad.dtype == dtype and x.grad.shape == x.shape
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == dtype
    strata.testing.assert_close(
        y.float(), nn.functional.linear(x, layer.weight, layer.bias).float(), rtol=0.2, atol=0.2
    )


def test_autocast():
    layer = layer_of(16, 8)
    with strata.autocast("cpu", dtype=strata.bfloat16):
        y = layer(strata.randn(2, 16))
    y.sum().backward()
    assert y.dtype == strata.bfloat16 and layer.weight.grad.dtype == strata.float32


def test_eval_records_nothing():
    layer = layer_of(16, 8).eval()
    layer(strata.randn(2, 16))
    assert layer.fp8_amax.tolist() == [0, 0, 0]


def test_convert_and_training():
    strata.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Sequential(nn.Linear(64, 64), nn.GELU()), nn.Linear(64, 1))
    weight, names = net[0].weight, [n for n, _ in net.named_parameters()]
    assert fp8.convert(net, filter=lambda name, module: module.out_features > 1) is net
    assert [type(m) for m in (net[0], net[2][0], net[3])] == [fp8.Linear, fp8.Linear, nn.Linear]
    assert net[0].weight is weight and [n for n, _ in net.named_parameters()] == names
    assert "history_length=16, margin=0" in repr(net)
    optimizer = strata.optim.AdamW(net.parameters(), lr=3e-3)
    x = strata.randn(256, 16)
    y = (x[:, :4].sum(1, keepdim=True)).sin()
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        fp8.update(net)
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_saved_and_loaded():
    layer = layer_of(16, 8)
    layer(strata.randn(4, 16)).sum().backward()
    fp8.update(layer)
    file = io.BytesIO()
    strata.save(layer.state_dict(), file)
    file.seek(0)
    other = fp8.Linear(16, 8)
    other.load_state_dict(strata.load(file))
    x = strata.randn(4, 16)
    assert strata.equal(other(x), layer(x)) and other.fp8_history.tolist() == layer.fp8_history.tolist()


def test_shared_and_repeated_layers():
    layer = layer_of(8, 8, bias=False)
    x = strata.randn(4, 8)
    layer(layer(x)).sum().backward()  # the second use does not invalidate what the first has saved
    assert layer.fp8_amax[0].item() >= x.abs().max().item()
    y = layer(x)
    fp8.update(layer)  # also between forward and backward
    y.sum().backward()
    assert layer.weight.grad.isfinite().all()


def test_wrong_uses():
    layer = layer_of(4, 3)
    for bad, error, message in [
        (strata.ones(2, 5), RuntimeError, "last dimension of input is 5, but weight has 4 columns"),
        (strata.ones(2, 4, dtype=strata.float64), RuntimeError, "expected float32, float16 or bfloat16, found float64"),
        (strata.ones(2, 4, dtype=strata.int64), RuntimeError, "found int64"),
        (strata.tensor(1.0), RuntimeError, "last dimension"),
        (strata.ones(2, 4, device=DEVICE), RuntimeError, "move the module"),
        ([1.0], TypeError, "list"),
    ]:
        with pytest.raises(error, match=message):
            layer(bad)
    with pytest.raises(ValueError, match="history is 0"):
        fp8.Linear(2, 2, history_length=0)
    with pytest.raises(ValueError, match="margin is 17"):
        fp8.Linear(2, 2, margin=17)
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="margin is -1"):
        fp8.convert(net, margin=-1)
    assert type(net) is nn.Linear
    with pytest.raises(TypeError, match="expected a Module, got list"):
        fp8.convert([net])
    with pytest.raises(RuntimeError, match="no columns"):
        fp8.Linear(0, 2)(strata.ones(3, 0))
    x = strata.ones(2, 4, requires_grad=True)
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        strata.autograd.grad(layer(x).sum(), x, create_graph=True)


def test_copies_and_meta():
    net = fp8.convert(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    x = strata.randn(3, 4)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), fp8.convert(net)):
        assert type(other[0]) is fp8.Linear and strata.equal(other(x), net(x))
    meta = fp8.Linear(4, 3, device="meta")
    assert meta(strata.ones(2, 4, device="meta")).shape == (2, 3)
    assert meta.to_empty(device="cpu").fp8_scale.dtype == strata.float32


def test_inputs_of_any_form():
    layer = layer_of(4, 3)
    x = strata.randn(4, 5)
    assert strata.equal(layer(x.t()), layer(x.t().contiguous())) and layer(x[:, 0]).shape == (3,)
    layer.weight.requires_grad_(False)
    y = layer(x.t().requires_grad_())
    with strata.no_grad():
        layer.weight.add_(1)  # the factors in float8 are copies
    y.sum().backward()
    assert layer.weight.grad is None and layer.bias.grad is not None
    with strata.inference_mode():
        assert not layer.eval()(x.t()).requires_grad


def test_recomputed_and_from_threads():
    layer = layer_of(4, 4)
    x = strata.randn(3, 4, requires_grad=True)
    layer(x).sum().backward()
    expected, x.grad = x.grad, None
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert strata.equal(x.grad, expected)
    failures = []

    def work():
        y = x.detach().requires_grad_()
        layer(y).sum().backward()
        if not strata.equal(y.grad, expected):
            failures.append(y.grad)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
