"""autograd.graph: what the hooks see and return, for every op that saves tensors."""

import contextlib
import gc
import threading
import weakref

import numpy as np
import pytest
import records
import strata
from records import RECORDS, label
from strata.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

DIFFERENTIABLE = [
    r
    for r in RECORDS
    if r["differentiable"] and r["samples"] and strata.float64 in r["dtypes"] and "!)" not in r["schema"]
]


def copies():
    """Hooks that keep NumPy copies: nothing of the saved tensor itself survives."""
    return saved_tensors_hooks(lambda t: np.array(t.numpy()), lambda a: strata.from_numpy(a.copy()))


def leaves_of(record, arguments):
    constant = record["constants"]
    return {
        k: v
        if k in constant
        else records.map_tensors(lambda t: t.clone().requires_grad_() if t.dtype is strata.float64 else t, v)
        for k, v in arguments.items()
    }


def hook_all_nodes(tensors):
    """A hook without effect on every node of the graph."""
    waiting, seen = [t.grad_fn for t in tensors], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node.name() == "AccumulateGrad":
            continue
        seen.add(node)
        waiting += [target for target, _ in node.next_functions]
        node.register_hook(lambda grad_inputs, grad_outputs: None)


def gradients(record, arguments, hooks, twice, hook_nodes=False):
    strata.manual_seed(0)
    with hooks:
        out = records.call(record, arguments)
    results = [t for t in records.tensors(out) if t.requires_grad]
    if hook_nodes:
        hook_all_nodes(results)
    leaves = [t for t in records.tensors(arguments) if t.requires_grad]
    if not results or not leaves:
        return []
    loss = sum(
        (t * (1 + strata.arange(t.numel(), dtype=strata.float64).reshape(t.shape) / 7)).sum().real for t in results
    )
    try:
        first = strata.autograd.grad(loss, leaves, create_graph=twice, allow_unused=True, materialize_grads=True)
    except NotImplementedError as e:
        assert "derivative" in str(e)
        return []
    if not twice:
        return list(first)
    second = sum((g * g).sum() for g in first)
    if not second.requires_grad:
        return list(first)
    try:
        return [*first, *strata.autograd.grad(second, leaves, allow_unused=True, materialize_grads=True)]
    except NotImplementedError as e:
        assert "derivative" in str(e)
        return list(first)


@pytest.mark.parametrize("twice", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("record", DIFFERENTIABLE, ids=label)
def test_gradients_are_the_same_under_hooks(record, twice):
    for text, arguments in records.samples(record, strata.float64):
        if "!" in text[:2]:
            continue
        arguments = leaves_of(record, arguments)
        try:
            want = gradients(record, arguments, contextlib.nullcontext(), twice)
        except RuntimeError as e:  # the phase of complex vectors, which a gradient must not depend on
            assert "ill-defined" in str(e)
            with pytest.raises(RuntimeError, match="ill-defined"):
                gradients(record, arguments, copies(), twice)
            continue
        for hooks, hook_nodes in ((copies(), False), (contextlib.nullcontext(), True)):
            found = gradients(record, arguments, hooks, twice, hook_nodes)
            assert len(want) == len(found)
            for a, b in zip(want, found, strict=True):
                largest = a.abs().nan_to_num(0.0, 0.0, 0.0).max().item() if a.numel() else 0.0
                assert strata.allclose(a, b, rtol=1e-9, atol=1e-12 * (1 + largest), equal_nan=True), (text, a, b)


def test_hooks_see_each_saved_tensor_once():
    packed, unpacked = [], []

    def pack(t):
        packed.append(t)
        return len(packed) - 1

    def unpack(i):
        unpacked.append(i)
        return packed[i]

    a, b = strata.ones(3, requires_grad=True), strata.full((3,), 2.0, requires_grad=True)
    with saved_tensors_hooks(pack, unpack):
        y = (a * b).exp().sum()
    assert [t.tolist() for t in packed] == [[1, 1, 1], [2, 2, 2], strata.full((3,), 2.0).exp().tolist()]
    assert not any(t.requires_grad for t in packed) and unpacked == []
    y.backward()
    assert sorted(unpacked) == [0, 1, 2] and strata.allclose(a.grad, 2 * y.detach() / 3)
    assert y.grad_fn.name() == "SumBackward0" and repr((a * b).grad_fn) == "<MulBackward0>"


def test_the_value_of_unpack_is_used():
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        x = strata.ones(3, requires_grad=True)
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_nested_hooks_use_the_innermost():
    seen = []

    def hooks(name):
        return saved_tensors_hooks(lambda t: seen.append(name) or t, lambda t: t)

    x = strata.ones(2, requires_grad=True)
    with hooks("outer"):
        x.exp()
        with hooks("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["outer", "inner", "outer"]


def test_ops_inside_hooks_are_not_packed():
    w = strata.ones(2, requires_grad=True)
    count = []
    with saved_tensors_hooks(lambda t: count.append(1) or (w * 2).exp().detach() * t, lambda t: t):
        x = strata.ones(2, requires_grad=True)
        x.exp()
    assert len(count) == 1


def test_errors():
    x = strata.ones(3, requires_grad=True)
    with (
        pytest.raises(RuntimeError, match="modifying its input in place"),
        saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
    ):
        x * x
    for hook, error in (
        (lambda t: 1, "expected to be a Tensor but got result of type int"),
        (lambda t: strata.ones(5), r"of shape \[3\]; got \[5\]"),
    ):
        with saved_tensors_hooks(lambda t: t, hook):
            y = (x * x).sum()
        with pytest.raises((TypeError, RuntimeError), match=error):
            y.backward()

    def broken(t):
        raise KeyError("from the hook")

    with pytest.raises(KeyError, match="from the hook"), saved_tensors_hooks(broken, broken):
        x * x
    with saved_tensors_hooks(lambda t: t, broken):
        y = (x * x).sum()
    with pytest.raises(KeyError, match="from the hook"):
        y.backward()
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    (x * x).sum().backward()  # no hooks are left


def test_hooks_can_be_forbidden():
    with disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError, match="too late"), disable_saved_tensors_hooks("too late"):
            pass


def test_hooks_belong_to_a_thread():
    seen = []
    x = strata.ones(2, requires_grad=True)
    with saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
    assert seen == []


def test_user_defined_functions():
    class Square(strata.autograd.Function):
        @staticmethod
        def forward(ctx, x, extra):
            out = x * x
            ctx.save_for_backward(x, out, None)
            return out

        @staticmethod
        def backward(ctx, g):
            x, out, none = ctx.saved_tensors
            assert none is None
            return g * 2 * x + 0 * out, None

    seen = []
    x = strata.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with saved_tensors_hooks(lambda t: seen.append("pack") or np.array(t.numpy()), lambda a: strata.from_numpy(a)):
        y = Square.apply(x, 1)
    (g,) = strata.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = strata.autograd.grad(g.sum(), x)
    assert seen == ["pack", "pack"] and g.tolist() == [2, 4, 6] and h.tolist() == [2, 2, 2]


@pytest.mark.parametrize("pin", [False, True])
def test_save_on_cpu(pin):
    x = strata.randn(3, 4, device="vgpu", requires_grad=True)
    w = strata.randn(4, 4, device="vgpu", requires_grad=True)
    with save_on_cpu(pin_memory=pin):
        y = strata.softmax(x @ w, -1).pow(2).sum()
    y.backward()
    found = [x.grad.clone(), w.grad.clone()]
    x.grad = w.grad = None
    strata.softmax(x @ w, -1).pow(2).sum().backward()
    assert strata.allclose(found[0].cpu(), x.grad.cpu()) and strata.allclose(found[1].cpu(), w.grad.cpu())
    assert found[0].device.type == "vgpu"


def test_packed_values_are_freed_with_the_graph():
    class Box:
        def __init__(self, t):
            self.t = t

    boxes = []

    def pack(t):
        box = Box(t.clone())
        boxes.append(weakref.ref(box))
        return box

    x = strata.ones(3, requires_grad=True)
    with saved_tensors_hooks(pack, lambda box: box.t):
        y = (x * x).exp().sum()
    assert all(ref() is not None for ref in boxes)
    y.backward()
    gc.collect()
    assert len(boxes) == 3 and all(ref() is None for ref in boxes)
    with saved_tensors_hooks(pack, lambda box: box.t):
        y = (x * x).exp().sum()
    del y
    gc.collect()
    assert all(ref() is None for ref in boxes)


def test_a_network_trains_under_hooks():
    strata.manual_seed(3)
    net = strata.nn.Sequential(
        strata.nn.Conv2d(1, 3, 3),
        strata.nn.BatchNorm2d(3),
        strata.nn.ReLU(),
        strata.nn.Flatten(),
        strata.nn.Linear(3 * 36, 2),
    )
    x, target = strata.randn(4, 1, 8, 8), strata.tensor([0, 1, 1, 0])

    def grads(hooks):
        net.zero_grad()
        with hooks:
            loss = strata.nn.functional.cross_entropy(net(x), target)
        loss.backward()
        return [p.grad.clone() for p in net.parameters()]

    for a, b in zip(grads(contextlib.nullcontext()), grads(copies()), strict=True):
        assert strata.equal(a, b)
