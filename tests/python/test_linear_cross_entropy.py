"""linear_cross_entropy: losses and gradients in chunks of rows, beside their definition in float64; and the memory that they take."""

import os

import numpy as np
import pytest
import strata

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
DEVICES = ["cpu", DEVICE]
# Relative, of a whole tensor. The logits are rounded to the dtype, as they are by linear().
TOLERANCE = {"float64": 1e-12, "float32": 3e-6, "float16": 4e-3, "bfloat16": 3e-2}
core = strata._C.ops["_linear_cross_entropy"]
every_device = pytest.mark.parametrize("device", DEVICES)


def definition(x, w, target, bias, weight, reduction, ignore=-100, smoothing=0.0):
    """The loss, and the gradients of half of its sum for x, w and bias."""
    logits = x @ w.T + (0 if bias is None else bias)
    rows, classes = logits.shape
    most = logits.max(1, keepdims=True)
    logp = logits - most - np.log(np.exp(logits - most).sum(1, keepdims=True))
    counts = target != ignore
    weight = np.ones(classes) if weight is None else weight
    goal = np.full((rows, classes), smoothing / classes) * weight
    goal[np.arange(rows), np.where(counts, target, 0)] += (1 - smoothing) * weight[np.where(counts, target, 0)]
    goal *= counts[:, None]
    each = -(goal * logp).sum(1)
    total = (weight[np.where(counts, target, 0)] * counts).sum() if reduction == "mean" else 1.0
    slope = 0.5 * (np.exp(logp) * goal.sum(1, keepdims=True) - goal) / total
    return each if reduction == "none" else each.sum() / total, slope @ w, slope.T @ x, slope.sum(0)


def numbers(t):
    return np.array(t.detach().cpu().double().tolist()).reshape(t.shape)


def random_case(rows, features, classes, dtype, device, seed, ignored=True):
    rng = np.random.default_rng(seed)
    x, w, bias = rng.standard_normal((rows, features)), rng.standard_normal((classes, features)), rng.random(classes)
    target = rng.integers(0, classes, rows)
    if ignored and rows > 2:
        target[1] = -100
    tensors = [strata.tensor(t).reshape(t.shape).to(device, getattr(strata, dtype)) for t in (x, w, bias)]
    weight = strata.tensor(rng.random(classes) + 0.5).to(device, getattr(strata, dtype))
    return *(t.requires_grad_() for t in tensors), strata.tensor(target).long().to(device), weight


def near(got, want, tolerance):
    got = numbers(got)
    assert got.shape == np.shape(want) and np.isfinite(got).all()
    assert np.linalg.norm(got - want) <= tolerance * max(np.linalg.norm(want), 0.05 * np.sqrt(np.size(want)))


@every_device
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (17, 8, 33), (40, 16, 257)], ids=str)
def test_loss_and_gradients(shape, dtype, device):
    for seed, reduction in enumerate(("mean", "sum", "none")):
        for biased, weighted, smoothing in (
            (False, False, 0.0),
            (True, True, 0.0),
            (True, True, 0.3),
            (False, False, 0.1),
        ):
            x, w, bias, target, weight = random_case(*shape, dtype, device, seed)
            leaves = [x, w, bias] if biased else [x, w]
            loss = F.linear_cross_entropy(
                x,
                w,
                target,
                linear_bias=bias if biased else None,
                weight=weight if weighted else None,
                reduction=reduction,
                label_smoothing=smoothing,
            )
            assert loss.dtype == x.dtype and loss.device.type == device
            grads = strata.autograd.grad(loss, leaves, strata.ones_like(loss) * 0.5)
            want = definition(
                numbers(x),
                numbers(w),
                target.cpu().numpy(),
                numbers(bias) if biased else None,
                numbers(weight) if weighted else None,
                reduction,
                smoothing=smoothing,
            )
            near(loss, want[0], TOLERANCE[dtype])
            for leaf, got, expected in zip(leaves, grads, want[1:], strict=False):
                assert got.dtype == leaf.dtype
                near(got, expected, TOLERANCE[dtype])


@every_device
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_any_number_of_rows_in_a_chunk(rows, smoothing, device):
    x, w, bias, target, weight = random_case(20, 6, 11, "float64", device, rows)
    for reduction in ("mean", "sum", "none"):
        kept = 0 if reduction == "none" else 7
        outs = core(x, w, target, bias, weight, reduction, -100, smoothing, rows, kept)
        grads = strata.autograd.grad(outs[0], [x, w, bias], strata.ones_like(outs[0]) * 0.5)
        arrays = (numbers(x), numbers(w), target.cpu().numpy(), numbers(bias), numbers(weight))
        want = definition(*arrays, reduction, smoothing=smoothing)
        for got, expected in zip((outs[0], *grads), want, strict=True):
            near(got, expected, 1e-12)


@every_device
def test_whole_numbers_are_exact(device):
    # One logit of each row is larger than the others by 512: the probabilities are exactly 0 and 1.
    rng = np.random.default_rng(3)
    chosen, target = rng.integers(0, 8, 24), rng.integers(0, 8, 24)
    x, slope = 8 * np.eye(8)[chosen], np.eye(8)[chosen] - np.eye(8)[target]
    for dtype in (strata.float32, strata.bfloat16, strata.float16):
        a = strata.tensor(x).to(device, dtype).requires_grad_()
        w = (64 * strata.eye(8)).to(device, dtype).requires_grad_()
        outs = core(a, w, strata.tensor(target).to(device), None, None, "sum", -100, 0.0, 5, 3)
        grads = strata.autograd.grad(outs[0], [a, w])
        assert outs[0].item() == 512 * (chosen != target).sum()
        assert (numbers(grads[0]) == 64 * slope).all() and (numbers(grads[1]) == slope.T @ x).all(), dtype


@every_device
def test_gradcheck(device):
    x, w, bias, target, weight = random_case(5, 3, 4, "float64", device, 1)
    for reduction in ("mean", "sum", "none"):
        for smoothing in (0.0, 0.2):
            f = lambda *t, r=reduction, s=smoothing: F.linear_cross_entropy(  # noqa: E731
                t[0], t[1], target, linear_bias=t[2], weight=weight, reduction=r, label_smoothing=s
            )
            assert strata.autograd.gradcheck(f, [x, w, bias])
            assert strata.autograd.gradgradcheck(f, [x, w, bias])


@every_device
def test_backward_twice_and_in_part(device):
    x, w, bias, target, _ = random_case(9, 4, 6, "float64", device, 2)
    loss = F.linear_cross_entropy(x, w, target, linear_bias=bias)
    once = strata.autograd.grad(loss, [x, w, bias], retain_graph=True)
    again = strata.autograd.grad(loss * 2, [x, w, bias])
    for a, b in zip(once, again, strict=True):
        assert np.allclose(2 * numbers(a), numbers(b), rtol=1e-15)
    frozen = F.linear_cross_entropy(x, w.detach(), target, linear_bias=bias.detach())
    assert np.allclose(numbers(strata.autograd.grad(frozen, [x])[0]), numbers(once[0]), rtol=1e-15)
    # Gradients that were not kept are computed later.
    late = core(x, w, target, bias, None, "mean", -100, 0.0, 2, 0)[0]
    for a, b in zip(once, strata.autograd.grad(late, [x, w, bias]), strict=True):
        assert np.allclose(numbers(a), numbers(b), rtol=1e-12, atol=1e-15)


@every_device
def test_rows_that_do_not_count(device):
    x, w, _, _, _ = random_case(4, 3, 5, "float32", device, 4)
    with strata.no_grad():
        x[0] = np.nan
    target = strata.tensor([-100, 2, 7, 7], device=device)
    loss = F.linear_cross_entropy(x, w, strata.where(target == 7, -100, target))
    grads = strata.autograd.grad(loss, [x, w])
    assert np.isfinite(loss.item()) and numbers(grads[0])[[0, 2, 3]].tolist() == [[0, 0, 0]] * 3
    nothing = F.linear_cross_entropy(x.nan_to_num(), w, strata.full((4,), -100, device=device))
    grads = strata.autograd.grad(nothing, [w])
    assert np.isnan(nothing.item()) and (numbers(grads[0]) == 0).all()


@every_device
def test_no_rows(device):
    x, w = strata.zeros(0, 3, device=device, requires_grad=True), strata.ones(4, 3, device=device, requires_grad=True)
    target, bias = strata.zeros(0, dtype=strata.int64, device=device), strata.ones(4, device=device, requires_grad=True)
    assert np.isnan(F.linear_cross_entropy(x, w, target).item())
    assert F.linear_cross_entropy(x, w, target, reduction="none").shape == (0,)
    loss = F.linear_cross_entropy(x, w, target, linear_bias=bias, reduction="sum")
    loss.backward()
    assert loss.item() == 0 and x.grad.shape == (0, 3)
    assert w.grad.tolist() == [[0.0] * 3] * 4 and bias.grad.tolist() == [0.0] * 4


@every_device
def test_a_class_out_of_range(device):
    x, w = strata.randn(3, 4, device=device), strata.randn(5, 4, device=device)
    for smoothing in (0.0, 0.1):
        for weight in (None, strata.ones(5, device=device)):
            with pytest.raises(IndexError, match="Target 5 is out of bounds"):
                target = strata.tensor([0, 5, 1], device=device)
                F.linear_cross_entropy(x, w, target, weight=weight, label_smoothing=smoothing).item()


@every_device
def test_views_and_byte_targets(device):
    whole = strata.randn(10, 8, dtype=strata.float64).to(device)
    x, w = whole[::2, 1:7].requires_grad_(), strata.randn(6, 9, dtype=strata.float64).to(device).t().requires_grad_()
    target = strata.tensor([0, 8, 3, 3, 1], dtype=strata.uint8).to(device)
    loss = F.linear_cross_entropy(x, w, target)
    want = definition(numbers(x), numbers(w), target.cpu().numpy().astype(int), None, None, "mean")
    near(loss, want[0], 1e-12)
    for got, expected in zip(strata.autograd.grad(loss / 2, [x, w]), want[1:], strict=False):
        near(got, expected, 1e-12)


@every_device
def test_autocast(device):
    x, w, bias, target, weight = random_case(30, 8, 50, "float32", device, 5)
    with strata.autocast(device, dtype=strata.bfloat16):
        loss = F.linear_cross_entropy(x, w, target, linear_bias=bias, weight=weight)
        narrow = F.linear_cross_entropy(x.bfloat16(), w.bfloat16(), target)
    assert loss.dtype == strata.float32 and narrow.dtype == strata.float32
    grads = strata.autograd.grad(loss / 2, [x, w, bias])
    arrays = (numbers(x), numbers(w), target.cpu().numpy(), numbers(bias), numbers(weight))
    want = definition(*arrays, "mean")
    near(loss, want[0], 1e-2)
    for got, expected in zip(grads, want[1:], strict=True):
        assert got.dtype == strata.float32
        near(got, expected, 3e-2)


def test_the_logits_of_all_rows_never_exist():
    """On a device: beside inputs and gradients there is one chunk of logits, which the gradient replaces in place."""
    gpu = getattr(strata, DEVICE)
    rows, features, classes, chunk = 96, 16, 4096, 8
    x, w, _, target, _ = random_case(rows, features, classes, "float32", DEVICE, 6)
    x.grad, w.grad = strata.zeros_like(x), strata.zeros_like(w)

    def peak(loss_of):
        gpu.synchronize()
        gpu.reset_peak_memory_stats()
        before = gpu.memory_allocated()
        loss_of().backward()
        gpu.synchronize()
        return gpu.max_memory_allocated() - before

    logits, gradients = 4 * rows * classes, 4 * (rows + classes) * features
    fused = peak(lambda: core(x, w, target, None, None, "mean", -100, 0.0, chunk, 3)[0])
    composed = peak(lambda: F.cross_entropy(F.linear(x, w), target))
    assert composed >= 2 * logits
    # The kept gradients and their scaled copies, one chunk, and 256 KiB for small tensors and workspaces.
    assert fused <= 2 * gradients + logits * chunk // rows + (1 << 18), (fused, gradients, logits)


def test_the_default_chunk_bounds_the_logits_on_meta():
    x = strata.empty(1 << 20, 64, dtype=strata.bfloat16, device="meta", requires_grad=True)
    w = strata.empty(1 << 17, 64, dtype=strata.bfloat16, device="meta", requires_grad=True)
    loss = F.linear_cross_entropy(x, w, strata.empty(1 << 20, dtype=strata.int64, device="meta"))
    loss.backward()
    assert loss.shape == () and x.grad.shape == x.shape and w.grad.shape == w.shape


def test_addmm_in_place_takes_no_temporary():
    gpu = getattr(strata, DEVICE)
    c, a, b = (strata.randn(*s, device=DEVICE) for s in ((64, 2048), (64, 4), (4, 2048)))
    want = numbers(c) * 0.5 + 2 * numbers(a) @ numbers(b)
    gpu.reset_peak_memory_stats()
    before = gpu.memory_allocated()
    c.addmm_(a, b, beta=0.5, alpha=2)
    assert gpu.max_memory_allocated() - before < c.nbytes
    assert np.allclose(numbers(c), want, rtol=1e-5, atol=1e-5)
    square = strata.randn(5, 5)
    want = numbers(square) + numbers(square) @ numbers(square)
    square.addmm_(square, square)  # factors that are overwritten
    assert np.allclose(numbers(square), want, atol=1e-5)
