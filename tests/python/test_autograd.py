"""Autograd from Python: modes, hooks, functions, checkpointing, anomaly mode, in-place rules."""

import gc
import threading
import weakref

import numpy as np
import pytest
import strata
from strata.autograd import Function, grad, gradcheck, gradgradcheck
from strata.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*shape):
    return strata.from_numpy(np.random.default_rng(0).standard_normal(shape)).requires_grad_()


def test_backward_accumulates_into_the_same_object():
    x = leaf(3)
    (x * 2).sum().backward()
    first = x.grad
    assert x.grad is first
    (x * 3).sum().backward()
    assert x.grad is first
    np.testing.assert_allclose(first.numpy(), [5, 5, 5])


def test_backward_twice_needs_a_kept_graph():
    x = leaf(3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time.*retain_graph=True"):
        y.backward()


def test_backward_needs_a_gradient_for_several_elements():
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (leaf(3) * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        strata.ones(1).backward()
    x = leaf(3)
    (x * 2).backward(strata.tensor([1.0, 2.0, 3.0], dtype=strata.float64))
    np.testing.assert_allclose(x.grad.numpy(), [2, 4, 6])


def test_grad_of_intermediate_tensors_and_unused_inputs():
    x, z = leaf(3), leaf(3)
    y = x * x
    out = (y * y).sum()
    np.testing.assert_allclose(grad(out, y, retain_graph=True)[0].numpy(), 2 * y.detach().numpy())
    with pytest.raises(RuntimeError, match="allow_unused"):
        grad(out, [x, z], retain_graph=True)
    assert grad(out, [x, z], allow_unused=True)[1] is None
    assert x.grad is None


def test_double_backward():
    x = leaf(4)
    first = grad((x**3).sum(), x, create_graph=True)[0]
    second = grad(first.sum(), x, create_graph=True)[0]
    third = grad(second.sum(), x)[0]
    values = x.detach().numpy()
    np.testing.assert_allclose(first.detach().numpy(), 3 * values**2)
    np.testing.assert_allclose(second.detach().numpy(), 6 * values)
    np.testing.assert_allclose(third.numpy(), np.full(4, 6.0))


def test_modes():
    x = leaf(2)
    with strata.no_grad():
        assert not (x * 2).requires_grad
        with strata.enable_grad():
            assert (x * 2).requires_grad

    @strata.no_grad()
    def quiet():
        return x * 2

    assert not quiet().requires_grad and (x * 2).requires_grad
    with strata.set_grad_enabled(False):
        assert not strata.is_grad_enabled()
    assert strata.is_grad_enabled()
    with strata.inference_mode():
        y = x * 2
    assert y.is_inference()
    with pytest.raises(RuntimeError, match="inference tensor"):
        y * leaf(2)
    seen = []
    worker = threading.Thread(target=lambda: seen.append(strata.is_grad_enabled()))
    with strata.no_grad():
        worker.start()
        worker.join()
    assert seen == [True], "a mode belongs to its thread"


def test_hooks():
    x = leaf(3)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.clone()) or g * 10)
    y = x * 2
    y.register_hook(lambda g: g + 1)
    y.retain_grad()
    y.sum().backward()
    np.testing.assert_allclose(seen[0].numpy(), [4, 4, 4])
    np.testing.assert_allclose(x.grad.numpy(), [40, 40, 40])
    np.testing.assert_allclose(y.grad.numpy(), [2, 2, 2])
    handle.remove()
    (x * 1).sum().backward()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        strata.ones(1).register_hook(print)

    def bad(g):
        raise ValueError("from a hook")

    x.register_hook(bad)
    with pytest.raises(ValueError, match="from a hook"):
        (x * 1).sum().backward()


class Cube(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * ctx.scale * x**2, None


def test_function():
    x = leaf(5)
    assert gradcheck(lambda t: Cube.apply(t, 2.0), x) and gradgradcheck(lambda t: Cube.apply(t, 2.0), x)
    y = Cube.apply(x, 2.0)
    assert "CubeBackward" in repr(y)
    with strata.no_grad():
        assert not Cube.apply(x, 2.0).requires_grad


class SavedResult(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def test_function_that_saves_its_result():
    x = leaf(1000)
    assert gradcheck(SavedResult.apply, leaf(3)) and gradgradcheck(SavedResult.apply, leaf(3))
    before = strata.memory_stats()["allocated_bytes"]
    for _ in range(5):
        SavedResult.apply(x)
    assert strata.memory_stats()["allocated_bytes"] == before, "the result and the graph keep each other alive"
    SavedResult.apply(x).sum().backward()
    y = SavedResult.apply(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_function_drops_what_it_saved_when_the_graph_is_freed():
    x = leaf(1000)
    y = Cube.apply(x * 1, 2.0).sum()
    held = strata.memory_stats()["allocated_bytes"]
    y.backward()  # x * 1 goes, the gradient comes
    assert strata.memory_stats()["allocated_bytes"] == held
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_function_errors():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Wrong.apply(leaf(2)).sum().backward()

    class Late(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            ctx.save_for_backward(y)
            y.add_(1)
            return y * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        Late.apply(leaf(2)).sum().backward()


def test_function_with_several_outputs():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return 2 * a + 3 * b

    x = leaf(3)
    a, b = Split.apply(x)
    b.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [3, 3, 3])
    assert gradcheck(Split.apply, leaf(3))


def test_checkpoint_of_parameters_with_a_plain_input():
    layer, x = strata.nn.Linear(3, 2), strata.ones(4, 3)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert layer.weight.grad.tolist() == [[4.0] * 3] * 2
    whole, index = checkpoint(lambda v: (layer(v), v.argmax(1)), x)
    assert whole.requires_grad and not index.requires_grad
    assert not checkpoint(strata.exp, x).requires_grad  # nothing to differentiate
    assert not checkpoint(layer, x, use_reentrant=True).requires_grad  # as in PyTorch
    with strata.no_grad():
        assert not checkpoint(layer, x).requires_grad


def test_checkpoint():
    calls = []

    def block(x, w):
        calls.append(1)
        return strata.tanh(x @ w)

    x, w = leaf(4, 3), leaf(3, 3)
    plain = block(x, w).sum()
    want = grad(plain, [x, w])
    calls.clear()
    checkpoint(block, x, w).sum().backward()
    assert len(calls) == 2
    for got, expected in zip((x.grad, w.grad), want, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy())
    x.grad = None
    checkpoint_sequential([strata.tanh, strata.sin, strata.exp], 2, x).sum().backward()
    want = grad(strata.exp(strata.sin(strata.tanh(x))).sum(), x)[0]
    np.testing.assert_allclose(x.grad.numpy(), want.numpy())


def test_checkpoint_draws_the_same_numbers_again():
    strata.manual_seed(1)
    x = leaf(100)
    y = checkpoint(lambda t: strata.nn.functional.dropout(t, 0.5), x)
    y.sum().backward()
    np.testing.assert_array_equal((x.grad != 0).numpy(), (y != 0).numpy())


def test_anomaly_mode_names_the_op_and_the_line():
    x = strata.tensor([-1.0, 4.0], requires_grad=True)
    with strata.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
        strata.sqrt(x)
    assert "sqrt returned nan" in str(caught.value) and "test_autograd.py" in str(caught.value)
    y = strata.tensor([0.0], requires_grad=True)
    with (
        strata.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="'[a-z_]+' returned nan values in its backward") as caught,
    ):
        (strata.sqrt(y) * 0).sum().backward()
    assert "test_autograd.py" in str(caught.value)


def test_in_place_rules():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad.*add_"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].add_(1)
    y = x * 1
    z = strata.sigmoid(y)
    z.mul_(2)
    with pytest.raises(RuntimeError, match="sigmoid saved"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        strata.zeros(1).expand(3).add_(1)
    with pytest.raises(RuntimeError, match="can't be cast"):
        strata.zeros(3, dtype=strata.int64).add_(0.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        strata.zeros(3).add_(strata.zeros(2, 3))


def test_in_place_gradients():
    x = leaf(3)
    y = x * 1
    view = y[1:]
    y.mul_(2)
    view.exp_()
    assert view.requires_grad
    (y * y).sum().backward()
    v = x.detach().numpy()
    want = np.array([2 * 2 * v[0] * 2, *(2 * np.exp(2 * v[1:]) ** 2 * 2)])
    np.testing.assert_allclose(x.grad.numpy(), want)


def test_a_long_chain_is_not_a_recursion():
    x = strata.ones(1, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    del y


def test_graphs_are_freed():
    while gc.collect():  # what other tests left, and what its finalizers release
        pass
    before = strata.memory_stats()["allocated_bytes"]
    for _ in range(3):
        x = strata.ones(1000, requires_grad=True)
        (x * x).sum().backward()
        y = strata.sigmoid(x * 2)
        y.mul_(3)
        del x, y
    gc.collect()
    assert strata.memory_stats()["allocated_bytes"] == before


def test_objects_keep_their_identity():
    x = strata.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is x.grad
    p = strata.nn.Parameter(strata.zeros(2))
    p.note = "kept"
    assert isinstance(p, strata.Tensor) and p.requires_grad and p.note == "kept" and [p][0] is p
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


def test_many_threads_at_once():
    errors = []

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            for _ in range(50):
                a = rng.standard_normal((40, 40))
                x = strata.from_numpy(a).requires_grad_()
                ((x @ x).tanh() * x).sum().backward()
                t = np.tanh(a @ a)
                s = a * (1 - t * t)
                np.testing.assert_allclose(x.grad.numpy(), t + s @ a.T + a.T @ s, rtol=1e-8)
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]
