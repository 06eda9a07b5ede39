"""strata.compile(): ops on rows (softmax, norms, reductions, losses, dropout) in groups with the pointwise ops around them."""

import numpy as np
import pytest
import strata
from compiled_programs import bits, row_program, with_gradients
from strata import _C

F = strata.nn.functional


@pytest.fixture(autouse=True)
def _also_small_tensors():
    before = _C._set_least_deferred(1)
    yield
    _C._set_least_deferred(before)


def names(explanation):
    return [[name.split(".")[-1] for name in g["ops"]] for g in explanation.groups]


# --- random programs ------------------------------------------------------------------------------------------------

SHAPES = ((6, 8), (5, 17), (3, 1), (0, 4), (4, 0), (1, 40), (64, 64), (33, 1030))


@pytest.mark.parametrize("seed", range(120))
def test_random_programs(seed):
    run = row_program(seed)
    shape = SHAPES[seed % len(SHAPES)]
    for dtype in (strata.float32, strata.bfloat16, strata.float16, strata.float64):

        def call(f, dtype=dtype):
            strata.manual_seed(seed)
            x, w = strata.randn(shape).to(dtype), strata.randn(shape[1:]).to(dtype)
            strata.manual_seed(seed + 1)
            try:
                return bits(f(x, w)), strata.get_rng_state().tolist()
            except (RuntimeError, IndexError) as error:  # e.g. the maximum of no elements
                return type(error), str(error)

        assert call(strata.compile(run)) == call(run), dtype


@pytest.mark.parametrize("seed", range(120))
def test_gradients_of_random_programs(seed):
    run = row_program(seed)
    shape = [s for s in SHAPES if 0 not in s][seed % (len(SHAPES) - 2)]

    train = with_gradients(run)

    for dtype in (strata.float32, strata.bfloat16):

        def call(f, dtype=dtype):
            strata.manual_seed(seed)
            x, w = strata.randn(shape).to(dtype), strata.randn(shape[1:]).to(dtype)
            strata.manual_seed(seed + 1)
            try:
                return bits(f(x, w))
            except RuntimeError as error:  # a value that backward needs was overwritten
                return str(error)[:60]

        assert call(strata.compile(train)) == call(train), dtype


@pytest.mark.parametrize("shape", [(3000, 17), (700, 257), (40, 5000), (300, 1024), (2, 70000), (1 << 18,)])
def test_any_number_of_threads_gives_the_same_bits(shape):
    def step(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.layer_norm(x * 1.5 + 0.25, w.shape, w, w)
        loss = (F.softmax(F.dropout(y, 0.2), -1) * x).sum() + (x - x.mean(-1, keepdim=True)).square().mean()
        loss.backward()
        return loss, x.grad, w.grad

    strata.manual_seed(1)
    x, w = strata.randn(shape), strata.randn(shape[-1:])
    results, threads = [], strata.get_num_threads()
    try:
        for f in (step, strata.compile(step)):
            for count in (1, 2, 3):
                strata.set_num_threads(count)
                strata.manual_seed(2)
                results.append([t.detach().numpy().tobytes() for t in f(x, w)])
    finally:
        strata.set_num_threads(threads)
    assert all(r == results[0] for r in results)


# --- what is fused --------------------------------------------------------------------------------------------------


def test_a_norm_by_hand_is_one_group():
    @strata.compile
    def rms(x, w):
        return x * strata.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w

    x, w = strata.randn(64, 128), strata.randn(128)
    assert names(rms.explain(x, w)) == [["mul", "mean", "add", "rsqrt", "mul", "mul"]]
    exact = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * w.double()
    np.testing.assert_allclose(rms(x, w).numpy(), exact.numpy(), rtol=2e-6, atol=1e-6)


def test_forward_and_backward_of_a_norm_with_dropout_are_one_group():
    @strata.compile
    def step(x, r, w, b):
        for t in (x, r, w, b):
            t.grad = None
        F.layer_norm(x + F.dropout(r, 0.1), w.shape, w, b).sum().backward()

    x, r = (strata.randn(64, 128, requires_grad=True) for _ in range(2))
    w, b = strata.randn(128, requires_grad=True), strata.randn(128, requires_grad=True)
    explanation = step.explain(x, r, w, b)
    assert len(explanation.groups) == 1
    group = explanation.groups[0]
    assert {"native_dropout", "_layer_norm", "sum", "_row_norm_backward"} <= set(names(explanation)[0])
    assert group["bytes"] < group["bytes_one_by_one"] / 2


def test_a_loss_and_its_gradient_are_one_pass():
    target = strata.tensor([3, 1, 0, 2] * 16)

    def step(x):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x * 2, target, ignore_index=1)
        loss.backward()
        return loss, x.grad

    x = strata.randn(64, 40)
    compiled = strata.compile(step)
    assert len(compiled.explain(x).groups) == 1
    assert bits(compiled(x)) == bits(step(x))
    wide = x.double().requires_grad_()
    F.cross_entropy(wide * 2, target, ignore_index=1).backward()
    np.testing.assert_allclose(compiled(x)[1].numpy(), wide.grad.numpy(), rtol=1e-5, atol=1e-8)


def test_backward_of_a_norm_by_hand_is_one_group():
    def step(x, w, b):
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        deviation = x - x.mean(-1, keepdim=True)
        y = deviation * strata.rsqrt(deviation.square().mean(-1, keepdim=True) + 1e-5) * w + b
        (y * y).mean().backward()
        return x.grad, w.grad, b.grad

    strata.manual_seed(1)
    for rows in (37, 700):
        x, w, b = strata.randn(rows, 128), strata.randn(128), strata.randn(128)
        compiled = strata.compile(step)
        assert len(compiled.explain(x, w, b).groups) == 1
        assert bits(compiled(x, w, b)) == bits(step(x, w, b))
        wide = step(*(t.double() for t in (x, w, b)))
        for got, exact in zip(compiled(x, w, b), wide, strict=True):
            np.testing.assert_allclose(got.numpy(), exact.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(37, 128), (1000, 256), (5, 3000), (2000, 64), (300, 2048), (4, 90, 512)])
def test_sums_over_rows_and_variances(shape):
    def f(x):
        y = x * 1.5 + 0.25
        over_rows = tuple(range(x.dim() - 1))
        kept = y.sum(over_rows), y.amax(0), y.norm(dim=over_rows, keepdim=True), (y * y).mean(over_rows)
        return *kept, y.var(-1), y.std(-1, keepdim=True), y.logsumexp(-1), strata.var_mean(y, -1)

    strata.manual_seed(1)
    for dtype in (strata.float32, strata.bfloat16, strata.float64):
        x = (strata.randn(shape) + 2).to(dtype)
        assert bits(strata.compile(f)(x)) == bits(f(x)), dtype


def test_few_long_rows_run_by_themselves():
    @strata.compile
    def f(x):
        return F.softmax(x * 2, -1) * 3

    for shape, groups in (((2, 5000), [["mul"], ["mul"]]), ((9, 5000), [["mul", "softmax", "mul"]])):
        x = strata.randn(shape)
        assert names(f.explain(x)) == groups
        assert bits(f(x)) == bits(F.softmax(x * 2, -1) * 3)


def test_other_rows_and_other_shapes_end_a_group():
    @strata.compile
    def f(x):
        return F.softmax(x * 2, 1).reshape(4, 8, 4).sum(-1) + 1, F.softmax(x * 3, 0), x.sum(0)

    x = strata.randn(4, 32)
    assert names(f.explain(x))[0] == ["mul", "softmax"]
    want = F.softmax(x * 2, 1).reshape(4, 8, 4).sum(-1) + 1, F.softmax(x * 3, 0), x.sum(0)
    assert bits(f(x)) == bits(want)


# --- values that are read as a whole --------------------------------------------------------------------------------


def test_weights_may_be_computed_and_overwritten():
    def f(x, w):
        y = F.layer_norm(x * 2, w.shape, w * 3)  # the weight is deferred itself
        scale = w * 1
        z = F.rms_norm(y, w.shape, scale)
        scale.mul_(0)  # after it was read
        square = strata.ones(8, 8)
        u = F.layer_norm(square * x[:8], (8,), (x[:8] * 2).sum(-1))
        return y, z, scale, u

    x, w = strata.randn(16, 8), strata.randn(8)
    assert bits(strata.compile(f)(x, w)) == bits(f(x, w))


def test_memory_may_be_replaced_before_the_group_is_computed():
    def f(x, w):
        w = w.clone()
        y = F.layer_norm(x * 2, w.shape, w)
        w.data = strata.zeros(w.shape)
        x = x.clone()
        z = F.softmax(x + 1, -1)
        x.zero_()
        return y, z

    x, w = strata.randn(16, 8), strata.randn(8)
    assert bits(strata.compile(f)(x, w)) == bits(f(x, w))


def test_a_wrong_class_raises_at_the_call():
    @strata.compile
    def f(x):
        with pytest.raises(IndexError):
            F.cross_entropy(x * 2, strata.tensor([7] * 4))
        return x + 1

    assert f(strata.ones(4, 3)).tolist() == [[2.0] * 3] * 4


def test_statistics_are_values_like_others():
    def f(x):
        y = x * 2
        mean = y.mean(-1)
        centred = y - mean[:, None]
        top = centred.amax(-1, keepdim=True)
        top.mul_(0.5)
        total = centred.sum()
        assert float(total) < 1
        return mean.sort()[0], centred * top, top.reshape(-1) + 1, total * 2, (centred * top).t().sum(-1)

    x = strata.randn(24, 33)
    assert bits(strata.compile(f)(x)) == bits(f(x))


def test_peak_memory_is_not_above_the_plain_call():
    target = strata.zeros(512, dtype=strata.int64)

    def step(x, r, w):
        x, r, w = (t.detach().requires_grad_() for t in (x, r, w))
        F.cross_entropy(F.layer_norm(x + F.dropout(r, 0.1), w.shape, w), target).backward()
        return x.grad, r.grad

    given = strata.randn(512, 512), strata.randn(512, 512), strata.randn(512)
    peaks = []
    for f in (step, strata.compile(step)):
        strata.reset_peak_memory_stats()
        before = strata.memory_stats()["allocated_bytes"]
        f(*given)
        peaks.append(strata.memory_stats()["peak_allocated_bytes"] - before)
    assert peaks[1] <= peaks[0] + 64  # numbers that a group reads stay until it is computed
