"""vmap: every rule against calls for each slice; no rule may fall back to slices."""

import warnings

import numpy as np
import pytest
import strata
import strata.nn as nn
import strata.nn.functional as F
from strata.func import vmap
from vmap_cases import CASES, A, V, X

x = strata.randn(4, 3)


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def same(got, want):
    assert got.shape == want.shape and got.dtype is want.dtype
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


def compare(function, arguments, dims):
    size = arguments[0].shape[dims]
    want = [leaves(function(*[a.select(dims, i) for a in arguments])) for i in range(size)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no slices
        got = leaves(vmap(function, in_dims=dims)(*arguments))
    for k, y in enumerate(got):
        same(y, strata.stack([w[k] for w in want]))


@pytest.mark.parametrize("name", CASES)
def test_rules_give_the_results_of_slices(name):
    function, arguments = CASES[name]
    compare(function, arguments, 0)


@pytest.mark.parametrize("name", [n for n in CASES if n != "view"])  # view() needs memory in order, as in PyTorch
def test_the_batch_may_be_the_last_dimension(name):
    function, arguments = CASES[name]
    compare(function, [a.movedim(0, -1) for a in arguments], -1)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_slices(name):
    function, arguments = CASES[name]
    inputs = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in arguments]

    def total(results):
        terms = [(r * strata.arange(1, r.numel() + 1).reshape(r.shape).cos()).sum() for r in results if r.requires_grad]
        return sum(terms[1:], terms[0]) if terms else None

    parts = [leaves(function(*[a[i] for a in inputs])) for i in range(inputs[0].shape[0])]
    want = total([strata.stack([p[k] for p in parts]) for k in range(len(parts[0]))])
    got = total(leaves(vmap(function)(*inputs)))
    assert (want is None) == (got is None)
    if want is None:
        return
    asked = [a for a in inputs if a.requires_grad]
    for g, w in zip(*[strata.autograd.grad(t, asked, allow_unused=True) for t in (got, want)], strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=2e-3, atol=2e-4)


def test_nested_levels():
    y = strata.randn(5, 3)
    same(vmap(lambda a: vmap(lambda b: a @ b)(y))(x), x @ y.T)
    same(vmap(vmap(strata.dot, (0, None)), (None, 0))(x, y), y @ x.T)
    same(
        vmap(lambda a: vmap(lambda b: vmap(lambda c: a.sum() + b * c)(a))(a))(x),
        x.sum(1)[:, None, None] + x[:, :, None] * x[:, None],
    )


def test_trees_and_dims():
    a, b = vmap(lambda a: (a, {"s": a.sum()}), out_dims=(1, {"s": 0}))(x)
    same(a, x.T)
    same(b["s"], x.sum(1))
    same(vmap(lambda d: d["a"] + d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": strata.ones(3)}), x + 1)
    kept = vmap(lambda a, b: (a + b, b), in_dims=(0, None), out_dims=(0, None))(x, strata.ones(3))[1]
    same(kept, strata.ones(3))
    same(vmap(lambda a: strata.ones(2))(x), strata.ones(4, 2))
    same(vmap(lambda a: a * 2, in_dims=-1, out_dims=-1)(x), x * 2)
    assert type(vmap(lambda a: a.max(0))(x)) is type(x.max(0))
    for chunk in (1, 3, 4, 9):
        same(vmap(lambda a: a.cumsum(0), chunk_size=chunk)(x), x.cumsum(1))
    same(vmap(lambda a: a + 1)(strata.zeros(0, 3)), strata.zeros(0, 3))


NUMBERS = {
    "rand": lambda a: a + strata.rand(50),
    "randn": lambda a: a + strata.randn((50,)),
    "randint": lambda a: a + strata.randint(0, 1000, (50,)),
    "randperm": lambda a: a + strata.randperm(50),
    "rand_like": lambda a: strata.rand_like(a),
    "randn_like": lambda a: strata.randn_like(a),
    "bernoulli": lambda a: strata.bernoulli(a * 0.5),
    "multinomial": lambda a: strata.multinomial(strata.ones(50), 20) + a[:20],
    "normal": lambda a: strata.normal(a, 1.0),
    "normal_": lambda a: a.clone().normal_(),
    "uniform_": lambda a: a.clone().uniform_(0, 5),
    "dropout": lambda a: F.dropout(a),
    "dropout1d": lambda a: F.dropout1d(a.reshape(1, 25, 2)),
    "gumbel_softmax": lambda a: F.gumbel_softmax(a),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_randomness(name):
    ones = strata.ones(4, 50)
    draw = NUMBERS[name]
    alike = vmap(draw, randomness="same")(ones)
    assert all(bool((row == alike[0]).all()) for row in alike) and float(alike[0].float().std()) > 0
    apart = vmap(draw, randomness="different")(ones)
    assert not any(bool((row == apart[0]).all()) for row in apart[1:])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(draw)(ones)
    same(vmap(lambda a: F.dropout(a, training=False))(ones), ones)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: vmap(lambda a: a.item())(x), RuntimeError, "item"),
        (lambda: vmap(lambda a: a if a.sum() > 0 else -a)(x), RuntimeError, "control flow"),
        (lambda: vmap(lambda a: a.nonzero())(x), RuntimeError, "nonzero"),
        (lambda: vmap(lambda a: a[a > 0])(x), RuntimeError, "batched mask"),
        (lambda: vmap(lambda a, b: a)(x, strata.ones(3)), ValueError, "same size"),
        (lambda: vmap(lambda a: strata.zeros(3).add_(a))(x), RuntimeError, "not possible"),
        (lambda: vmap(lambda a: 1.0)(x), ValueError, "must only return"),
        (lambda: vmap(lambda a: a, in_dims=5)(x), ValueError, "in_dim=5"),
        (lambda: vmap(lambda a: a, in_dims=(0, 0))(x), ValueError, "in_dims"),
        (lambda: vmap(lambda a: a)(), ValueError, "no inputs"),
        (lambda: vmap(lambda a: a, in_dims=None)(x), ValueError, "in_dims"),
        (lambda: vmap(lambda a: a, out_dims=4)(x), IndexError, "out of range"),
        (lambda: vmap(lambda a: a.sum(5))(x), IndexError, "out of range"),
        (lambda: vmap(lambda a: a, randomness="none")(x), RuntimeError, "randomness"),
        (lambda: vmap(lambda a: a, chunk_size=0)(x), ValueError, "chunk_size"),
        (lambda: vmap(lambda a: a.sum().backward())(x), RuntimeError, "backward"),
        (lambda: vmap(lambda a: strata.add(a, a, out=strata.zeros(3)))(x), RuntimeError, "out="),
        (lambda: vmap(nn.BatchNorm2d(4))(X), RuntimeError, "track_running_stats"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_tensor_does_not_outlive_its_level():
    kept = []
    vmap(lambda a: kept.append(a) or a)(x)
    with pytest.raises(RuntimeError, match="after its function"):
        kept[0] + 1
    assert "BatchedTensor" in repr(kept[0]) and kept[0].shape == (3,)


def test_ops_without_a_rule_warn_once():
    from strata._vmap import core

    core._warned.discard("histc")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = vmap(lambda a: strata.histc(a, 4, -2, 2))(x)
        vmap(lambda a: strata.histc(a, 4, -2, 2))(x)
    assert len(seen) == 1 and "performance drop" in str(seen[0].message)
    same(got, strata.stack([strata.histc(a, 4, -2, 2) for a in x]))


def test_functions_and_custom_ops_of_users():
    class Square(strata.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    class WithRule(Square):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 4 and in_dims == (0,)
            return Square.apply(x.mT), 1

    class Without(Square):
        generate_vmap_rule = False

    for kind in (Square, WithRule):
        same(vmap(kind.apply)(x), x * x)
        same(vmap(strata.func.grad(lambda a, f=kind: f.apply(a).sum()))(x), 2 * x)
    with pytest.raises(RuntimeError, match="vmap support"):
        vmap(Without.apply)(x)

    @strata.library.custom_op("tests::vmap_twice", mutates_args=())
    def twice(a: strata.Tensor, by: float) -> strata.Tensor:
        return a * by

    with pytest.warns(UserWarning, match="performance drop"):
        same(vmap(lambda a: twice(a, 2.0))(x), x * 2)
    twice.register_vmap(lambda info, in_dims, a, by: (twice(a, by), 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(vmap(lambda a: twice(a, 2.0))(x), x * 2)


def test_other_devices():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = vmap(lambda a, v: (a @ v).softmax(0) + a.sum(), (0, 0))(A.to("vgpu"), V.to("vgpu"))
        meta = vmap(lambda a, v: (a @ v).softmax(0) + a.sum(), (0, 0))(A.to("meta"), V.to("meta"))
    same(got.cpu(), vmap(lambda a, v: (a @ v).softmax(0) + a.sum(), (0, 0))(A, V))
    assert meta.shape == got.shape and meta.is_meta


def test_modes_may_be_entered_while_one_handles_a_call():
    from strata.torch.overrides import TorchFunctionMode

    class Again(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            with BaseMode():
                return func(*args, **(kwargs or {}))

    class BaseMode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Again():
        assert float(strata.ones(2).sum()) == 2.0


def test_positional_flags_after_a_dim():
    a = strata.randn(4, 5)
    np.testing.assert_allclose(a.var(1, False).numpy(), a.numpy().var(1), rtol=1e-5)
    np.testing.assert_allclose(a.std(0, False, True).numpy(), a.numpy().std(0, keepdims=True), rtol=1e-5)
