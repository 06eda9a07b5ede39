"""cond, while_loop and scan in eager programs: the loops of plain Python, their gradients, PyTorch's results, and misuse."""

import itertools

import pytest
import records
import strata
from control_programs import Plain, Program
from strata import nn

T = strata.tensor
DEVICES = ("cpu", "vgpu")


def values(x):
    return [(t.dtype, tuple(t.shape), repr(t.detach().tolist())) for t in records.tensors(x)]


@pytest.mark.parametrize("device, first", [("cpu", 0), ("cpu", 100), ("vgpu", 200)])
def test_random_programs(device, first):
    for seed in range(first, first + (100 if device == "cpu" else 5)):
        program = Program(seed, device=device)
        for given in (program.inputs(seed), program.inputs(seed + 1)):
            strata.manual_seed(seed)
            want = program.run(Plain, *given)
            strata.manual_seed(seed)
            assert values(program.run(strata, *given)) == values(want), seed


def test_gradients():
    """Those of the plain loops, and finite differences."""
    checked = 0
    for seed in range(40):
        program = Program(seed, draws=False, dtype=strata.float64)
        inputs = [t.requires_grad_() for t in program.inputs(seed)]

        def loss(flow, program=program, inputs=inputs):
            return sum(
                (out * strata.linspace(0.5, 1.5, 12).double().view(3, 4)).sum() for out in program.run(flow, *inputs)
            )

        if not loss(Plain).requires_grad:
            continue
        want = strata.autograd.grad(loss(Plain), inputs, allow_unused=True)
        got = strata.autograd.grad(loss(strata), inputs, allow_unused=True)
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None)
            assert a is None or strata.allclose(a, b, rtol=1e-12, atol=1e-12), seed
            checked += a is not None
    assert checked > 60

    def smooth(x, w):
        y = strata.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: (x + w).tanh(), (x,))
        _, y = strata.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w + y.sin()), (0, y))
        carry, ys = strata.scan(lambda c, v: (c * v + w[0], c.cos() * v), y[0], y, dim=0, reverse=True)
        return carry.sum(0), ys

    for sign in (1, -1):
        x = (sign * strata.rand(3, 4, dtype=strata.float64)).requires_grad_()
        w = strata.rand(3, 4, dtype=strata.float64, requires_grad=True)
        assert strata.autograd.gradcheck(smooth, (x, w))
        assert strata.autograd.gradgradcheck(smooth, (x, w))


@pytest.mark.parametrize("device", DEVICES)
def test_cond(device):
    x = strata.arange(3.0, device=device)
    for pred in (True, 1, 2.5, T(True, device=device), T([[3]], device=device), T(float("nan")), T(1j, device=device)):
        assert strata.cond(pred, lambda x: x + 1, lambda x: x - 1, (x,)).tolist() == [1, 2, 3]
    for pred in (False, 0, -0.0, T([False], device=device), T(0, device=device), T(-0.0), T(0j)):
        assert strata.cond(pred, lambda x: x + 1, lambda x: x - 1, [x]).tolist() == [-1, 0, 1]
    given = {"a": [x, (x * 2, 7)], "b": "text"}
    result = strata.cond(T(True), lambda d, s: {"r": (d["a"][1][0] * d["a"][1][1], s), "n": 3}, max, (given, x))
    assert values(result) == values({"r": (x * 14, x), "n": T(3)}) and isinstance(result["r"], tuple)
    assert strata.cond(T(True), lambda: (), lambda: ()) == ()
    empty = strata.cond(T(False), lambda x: x, lambda x: x[:, 0], (strata.zeros(0, 2, device=device),))
    assert empty.shape == (0,)


@pytest.mark.parametrize("device", DEVICES)
def test_while_loop(device):
    x = strata.ones(2, 2, device=device)
    i, y = strata.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 2), (T(0, device=device), x))
    assert i.item() == 5 and y.tolist() == [[32, 32], [32, 32]]
    i, y = strata.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * 2), (0, x))  # no trip
    assert i.item() == 0 and strata.equal(y, x) and y.data_ptr() != x.data_ptr()
    tree = strata.while_loop(lambda d, n: n < 2, lambda d, n: [{"a": [d["a"][0] + n]}, n + 1], [{"a": [x]}, 0])
    assert values(tree) == values(({"a": [x + 1]}, T(2))) and isinstance(tree, tuple)
    assert strata.while_loop(lambda n: bool(n < 3), lambda n: (n + 1,), (0,))[0].item() == 3  # a bool of Python
    assert strata.while_loop(lambda n: True, lambda n: (n + 1,), (0,), max_trips=7)[0].item() == 7
    assert strata.while_loop(lambda n: n < 3, lambda n: n + 1, (0,)) == (T(3),)
    # The layout of the first value is kept.
    z = strata.rand(2, 3, device=device)
    moved = strata.while_loop(lambda n, z: n < 1, lambda n, z: (n + 1, z.t().contiguous().t()), (0, z))[1]
    assert strata.equal(moved, z) and moved.is_contiguous()


@pytest.mark.parametrize("device", DEVICES)
def test_scan(device):
    xs = strata.arange(24.0, device=device).view(2, 3, 4)
    for dim, reverse in itertools.product((0, 1, 2, -1), (False, True)):
        carry, ys = strata.scan(
            lambda c, x: (c + x, {"sum": c + x, "square": x * x}), xs.select(dim, 0) * 0, xs, dim=dim, reverse=reverse
        )
        flipped = xs.flip(dim) if reverse else xs
        sums = flipped.cumsum(dim).flip(dim) if reverse else flipped.cumsum(dim)
        assert strata.equal(carry, xs.sum(dim)) and strata.equal(ys["sum"], sums)
        assert strata.equal(ys["square"], xs * xs)
    carry, ys = strata.scan(lambda c, x: (c + x[0] * x[1]["k"], None), xs.new_zeros(()), (xs[0, 0], {"k": xs[0, 1]}))
    assert carry.item() == (xs[0, 0] * xs[0, 1]).sum().item() and ys is None
    # A row more dimensions than a slice has, and other dtypes.
    _, ys = strata.scan(lambda c, x: (c, strata.stack([x > 1, x > 2])), T(0), xs[0, 0], dim=0)
    assert ys.dtype == strata.bool and ys.tolist() == [[False, False], [False, False], [True, False], [True, True]]


def test_scan_of_nothing():
    """PyTorch 2.15: the carry is init, results have no elements along dim; the function is asked for their types."""
    carry, ys = strata.scan(lambda c, x: (c + x, strata.stack([c, x])), T(3.0), strata.zeros(0))
    assert carry.item() == 3 and ys.shape == (0, 2)
    carry, ys = strata.scan(lambda c, x: (c + x, c.int()), strata.zeros(2), strata.zeros(2, 0), dim=1)
    assert carry.tolist() == [0, 0] and ys.shape == (2, 0) and ys.dtype == strata.int32
    init = strata.ones(2, requires_grad=True)
    strata.scan(lambda c, x: (c * x, c), init, strata.zeros(0, 2))[0].sum().backward()
    assert init.grad.tolist() == [1, 1]
    strata.manual_seed(3)
    strata.scan(lambda c, x: (c, strata.rand(2)), T(0.0), strata.zeros(0))
    drawn = strata.rand(1)
    strata.manual_seed(3)
    assert strata.equal(drawn, strata.rand(1))
    assert strata.scan(lambda c, x: (c + 1, c), T(0), None, length=3)[1].tolist() == [0, 1, 2]
    assert strata.scan(lambda c, x: (c + 1, None), T(5), None, length=0) == (T(5), None)


def test_results_share_no_memory():
    x, w = strata.ones(3), strata.ones(3, requires_grad=True)
    fresh = [
        strata.cond(T(True), lambda x: x, lambda x: x, (x,)),
        strata.cond(T(True), lambda x: x[1:], lambda x: x, (x,)),
        strata.cond(T(True), lambda: x, lambda: x),
        strata.cond(T(True), lambda: x.view(3, 1).detach(), lambda: x),
        strata.cond(T(True), lambda: w, lambda: w),
        *strata.cond(T(True), lambda: [x + 1] * 2, lambda: x),
        *strata.cond(T(True), lambda: (lambda y: (y, y[0], y.view(1, 3)))(x + 1), lambda: x),
        strata.while_loop(lambda n, x: n < 2, lambda n, x: (n + 1, x), (0, x))[1],
        strata.while_loop(lambda n, x: n < 2, lambda n, x: (n + 1, w.data), (0, x))[1],
        strata.scan(lambda c, v: (x, v), x * 0, strata.ones(2, 3))[0],
        *strata.scan(lambda c, v: (v, v), x[0], x),
    ]
    memory = {x.untyped_storage().data_ptr(), w.untyped_storage().data_ptr()}
    for t in fresh:
        assert t.untyped_storage().data_ptr() not in memory and t.storage_offset() == 0
        memory.add(t.untyped_storage().data_ptr())
    fresh[4].sum().backward()
    assert w.grad.tolist() == [1, 1, 1]
    made = strata.cond(T(True), lambda: (w * 2).exp(), lambda: w)  # is not copied, though the tape holds it
    assert type(made.grad_fn).__name__ == "ExpBackward0"


def test_misuse():
    x, yes = strata.ones(3), T(True)
    body = ValueError, "while_loop: body_fn returned"
    scan = strata.scan
    for call, kind, message in [
        (
            lambda: strata.cond("a", max, max),
            TypeError,
            "expected pred to be a tensor with one element or a bool, got str",
        ),
        (lambda: strata.cond(None, max, max), TypeError, "NoneType"),
        (lambda: strata.cond(x > 0, max, max), ValueError, "pred has 3 elements .shape .3.."),
        (lambda: strata.cond(x[:0], max, max), ValueError, "pred has 0 elements"),
        (lambda: strata.cond(strata.zeros((), device="meta"), max, max), RuntimeError, "meta"),
        (lambda: strata.cond(yes, 3, max), TypeError, "expected true_fn to be a function, got int"),
        (lambda: strata.cond(yes, max, max, x), TypeError, "expected a tuple of operands, got Tensor"),
        (lambda: strata.cond(yes, lambda a: a, max, (x, x)), TypeError, "takes 1 positional argument"),
        (lambda: strata.cond(yes, lambda: None, max), TypeError, "true_fn: expected tensors, got NoneType"),
        (lambda: strata.cond(yes, lambda: "a", max), TypeError, "expected tensors, got str"),
        (lambda: strata.cond(yes, lambda a: a.add_(1), max, (x.clone(),)), RuntimeError, "argument 0 in place"),
        (lambda: strata.cond(yes, lambda a: a[0].zero_(), max, (x.clone(),)), RuntimeError, "argument 0 in place"),
        (lambda: strata.cond(yes, lambda: 1 / 0, max), ZeroDivisionError, "division"),
        (lambda: strata.while_loop(max, max, ()), TypeError, "not empty"),
        (lambda: strata.while_loop(max, max, x), TypeError, "expected a tuple of carried inputs"),
        (lambda: strata.while_loop(lambda n: "a", max, (0,)), TypeError, "cond_fn returned str"),
        (lambda: strata.while_loop(lambda n: x > 0, max, (0,)), ValueError, "the result of cond_fn has 3 elements"),
        (lambda: strata.while_loop(lambda n, m: n < 1, lambda n, m: n + 1, (0, 0)), TypeError, "expected a tuple of 2"),
        (lambda: strata.while_loop(lambda n: n < 1, lambda n: (n, n), (0,)), ValueError, "returned .Tensor, Tensor."),
        (
            lambda: strata.while_loop(lambda n: n < 1, lambda n: ([n],), (0,)),
            ValueError,
            "carried_inputs are .Tensor,.",
        ),
        (lambda: strata.while_loop(lambda n: n < 1, lambda n: (n + 0.5,), (0,)), *body),
        (lambda: strata.while_loop(lambda n: n < 1, lambda n: (n.view(1),), (0,)), *body),
        (lambda: strata.while_loop(lambda n: n < 1, lambda n: (n.to("vgpu"),), (0,)), *body),
        (lambda: strata.while_loop(lambda n: n < 1, lambda n: (n.add_(1),), (0,)), RuntimeError, "in place"),
        (lambda: strata.while_loop(lambda n: n.add_(1) < 1, lambda n: (n,), (0,)), RuntimeError, "in place"),
        (lambda: scan(max, x[0], 3), TypeError, "expected tensors as xs, got int"),
        (lambda: scan(max, x[0], None), ValueError, "expected a length"),
        (lambda: scan(max, x[0], None, length=-1), ValueError, "neither may be negative"),
        (lambda: scan(max, x[0], x, length=2), ValueError, "size 3 in dimension 0; expected 2"),
        (lambda: scan(max, x[0], (x, x[:2])), ValueError, "xs 1 has size 2 in dimension 0; expected 3"),
        (lambda: scan(max, x[0], x, dim=1), IndexError, "out of range"),
        (lambda: scan(max, x[0], x, dim=-2), IndexError, "out of range"),
        (lambda: scan(max, x[0], x[0]), IndexError, "has 0 dimensions"),
        (lambda: scan(lambda c, v: (c, v.sum()), x, x.view(3, 1), dim=1), IndexError, "cannot be stacked along"),
        (lambda: scan(lambda c, v: c, x[0], x), TypeError, "expected .carry, y."),
        (lambda: scan(lambda c, v: ((c,), c), x[0], x), ValueError, "returned a carry .Tensor,.; init is Tensor"),
        (lambda: scan(lambda c, v: (c.double(), c), x[0], x), ValueError, "float64.. for carried value 0"),
        (lambda: scan(lambda c, v: (c, v.add_(1)), x[0], x.clone()), RuntimeError, "in place"),
        (lambda: scan(lambda c, v: (c + 1, [c] if c > 0 else c), T(0), x), ValueError, "in the first call it was"),
        (lambda: scan(lambda c, v: (c + 1, c if c > 0 else c.int()), T(0), x), ValueError, "it was int32"),
    ]:
        with pytest.raises(kind, match=message):
            call()
    with pytest.raises(KeyboardInterrupt):
        strata.cond(yes, lambda: (_ for _ in ()).throw(KeyboardInterrupt()), max)


def test_modules_modes_and_transforms():
    layer, x = nn.Linear(3, 3), strata.rand(2, 3)

    def step(x):
        return strata.scan(lambda c, v: (c * v, c + v), x.new_ones(()), x)[1]

    def f(x):
        return strata.cond(x.sum() > 0, lambda x: layer(x), lambda x: -x, (x,))

    assert strata.equal(f(x), layer(x)) and strata.equal(f(-x), x)
    with strata.no_grad():
        assert not f(x).requires_grad
    with strata.inference_mode():
        assert f(x).is_inference()
    with strata.autocast("cpu", dtype=strata.bfloat16):
        assert f(x).dtype == strata.bfloat16
    y = strata.rand(3) + 1
    assert strata.allclose(strata.func.jacrev(step)(y), strata.func.jacfwd(step)(y))
    assert strata.allclose(strata.func.vmap(step)(strata.stack([y, y * 2]))[1], step(y * 2))
    assert (
        strata.func.jvp(lambda x: strata.cond(T(True), lambda x: x * x, max, (x,)), (y,), (y,))[1].tolist()
        == (2 * y * y).tolist()
    )
    with pytest.raises(RuntimeError, match="vmap"):
        strata.func.vmap(lambda x: strata.cond(x.sum() > 0, lambda x: x, lambda x: x, (x,)))(x)
    sparse = strata.eye(2).to_sparse()
    assert strata.cond(T(True), lambda s: s * 2, max, (sparse,)).to_dense().tolist() == [[2, 0], [0, 2]]
    with pytest.raises(TypeError, match="SparseTensor can only be returned if one is an argument"):
        strata.cond(T(True), lambda: sparse, max)


def test_the_names_of_pytorch():
    code = """
import strata.torch_alias, torch
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops import cond
import torch._higher_order_ops as ops
assert ops.while_loop is while_loop and ops.scan is scan and ops.cond is cond is torch.cond
x = torch.ones(2)
assert torch.ops.higher_order.cond(torch.tensor(False), lambda x: x, lambda x: -x, (x,)).tolist() == [-1, -1]
n = torch.tensor(4)
assert torch.ops.higher_order.while_loop(lambda i, n: i < n, lambda i, n: (i + 1,), (n * 0,), (n,))[0] == 4
carry, ys = torch.ops.higher_order.scan(lambda c, x, a: [c + x * a, c], [x[0] * 0], [torch.arange(3.0)], [n])
assert carry == 12 and ys.tolist() == [0, 0, 4]
# The examples of PyTorch's documentation
i, y = while_loop(lambda i, x: i.sum() < 10, lambda i, x: (i + 1, x.sin()), (torch.zeros(1), torch.ones(3, 4)))
assert i == 10
last, sums = scan(lambda x, y: (x + y, (x + y).clone()), init=torch.zeros(1), xs=torch.arange(5))
assert last.tolist() == [10] and sums.tolist() == [[0], [1], [3], [6], [10]]
print("good")
"""
    import subprocess
    import sys

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "good\n", ended.stderr
