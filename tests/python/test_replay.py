"""Replayed calls (strata.compile(replay=True)): programs whose surroundings change between calls give the results of plain calls.

Each case builds a program and yields a call after each change. Every call is made by the plain function and by the replayed one,
each on its own copy of the arguments and with the same seed, several times, so that it is followed, audited and replayed.
"""

import builtins
import copy
import dataclasses
import functools
import random
import types
import typing

import pytest
import strata
import strata.nn.functional as F
from compiled_programs import same_bits
from strata import nn

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def tensors_of(tree):
    return [t for t in strata.utils._pytree.tree_leaves(tree) if isinstance(t, strata.Tensor)]


class Checked:
    """A function and its replayed form, for calls with the same arguments."""

    def __init__(self, function, owner=None):
        self.plain, self.replayed = function, strata.compile(function, replay=True)
        self.states = [*owner.parameters(), *owner.buffers()] if owner is not None else []

    def __call__(self, *args, times=5, fresh=None, **kwargs):
        """`fresh` makes the arguments of each call, otherwise copies of `args` are used."""
        for _ in range(times):
            given = (lambda a=args: copy.deepcopy(a)) if fresh is None else fresh
            before = [s.detach().clone() for s in self.states]
            seen = []
            for function in (self.plain, self.replayed):
                with strata.no_grad():
                    for state, value in zip(self.states, before, strict=True):
                        state.copy_(value)
                strata.manual_seed(7)
                mine = given()
                result = function(*mine, **kwargs)
                outs = tensors_of(result)
                grads = self.grads(
                    outs, [t for t in (*tensors_of(mine), *self.states) if t.requires_grad and t.is_leaf]
                )
                drawn = strata.rand(1)
                seen.append((outs, tensors_of(mine), [s.detach().clone() for s in self.states], grads, [drawn]))
                rest = [
                    leaf for leaf in strata.utils._pytree.tree_leaves(result) if not isinstance(leaf, strata.Tensor)
                ]
                identities = [[o is t for t in (*tensors_of(mine), *self.states)] for o in outs]
                seen[-1] += (rest, identities)
            for plain, replayed in zip(seen[0][:5], seen[1][:5], strict=True):
                assert len(plain) == len(replayed)
                assert all(same_bits(a, b) for a, b in zip(plain, replayed, strict=True))
            assert seen[0][5:] == seen[1][5:]

    @staticmethod
    def grads(outs, leaves):
        outs = [o for o in outs if o.requires_grad and not o.is_leaf]
        if not outs or not leaves:
            return []
        total = sum((o * o).sum() for o in outs)
        return [g for g in strata.autograd.grad(total, leaves, allow_unused=True) if g is not None]

    @property
    def graphs(self):
        return self.replayed.variants().graphs

    @property
    def total(self):
        return sum(g["replayed"] for g in self.graphs)


X = strata.arange(12.0).reshape(3, 4) / 7
SCALE, TABLE, NAMES = 2.0, [1.0, 2.0], {"a": 0.5}
CONSTANT = strata.ones(4)


def helper(x):
    return x * SCALE


@case
def numbers_of_the_module(monkeypatch):
    f = Checked(lambda x: helper(x) + TABLE[1] * NAMES["a"])
    f(X)
    assert f.total
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    f(X)
    TABLE[1] = 5.0
    f(X)
    TABLE[1] = 2.0
    monkeypatch.setitem(NAMES, "a", 7.0)
    f(X)


@case
def global_tensor_written_and_replaced(monkeypatch):
    f = Checked(lambda x: x + CONSTANT)
    f(X)
    CONSTANT.mul_(3)
    f(X)
    monkeypatch.setitem(globals(), "CONSTANT", strata.zeros(4))
    f(X)
    assert f.total


@case
def helper_replaced(monkeypatch):
    f = Checked(lambda x: helper(x).exp())
    f(X)
    monkeypatch.setitem(globals(), "helper", lambda x: x - 1)
    f(X)
    assert f.total


@case
def builtin_shadowed(monkeypatch):
    f = Checked(lambda x: x * abs(-2.0))
    f(X)
    monkeypatch.setitem(globals(), "abs", lambda v: 9.0)
    f(X)
    monkeypatch.delitem(globals(), "abs")
    assert builtins.abs(-1) == 1
    f(X)


@case
def closure_changes(monkeypatch):
    factor = 2.0

    def program(x):
        return x * factor

    f = Checked(program)
    f(X)
    factor = 4.0
    f(X)
    assert f.total


@case
def defaults_and_code_change(monkeypatch):
    def program(x, y=2.0, *, z=1.0):
        return x * y + z

    f = Checked(program)
    f(X)
    program.__defaults__ = (5.0,)
    f(X)
    program.__kwdefaults__["z"] = 3.0
    f(X)
    program.__code__ = (lambda x, y=0, *, z=0: x - y).__code__
    f(X)
    assert f.total


class Net(nn.Module):
    width = 2.0

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
        self.norm = nn.BatchNorm1d(4)
        self.rate, self.options = 0.5, {"bias": [1.0, 2.0]}
        self.register_buffer("offset", strata.ones(4))

    def forward(self, x):
        y = self.norm(self.two(F.relu(self.one(x)))) * self.rate + self.options["bias"][0] + self.offset
        return y * self.width


@case
def attributes_of_modules(monkeypatch):
    net = Net()
    f = Checked(net, net)
    f(X)
    assert f.total
    net.rate = 0.25
    f(X)
    net.options["bias"][0] = 9.0
    f(X)
    monkeypatch.setattr(Net, "width", 3.0)
    f(X)
    net.width = 4.0  # shadows the attribute of the class
    f(X)
    net.offset = strata.zeros(4)
    f.states = [*net.parameters(), *net.buffers()]
    f(X)


@case
def modes_and_hooks(monkeypatch):
    net = Net()
    f = Checked(net, net)
    f(X)
    net.eval()
    f(X)
    net.train()
    f(X)
    handle = net.one.register_forward_hook(lambda module, args, out: out * 2)
    f(X)
    handle.remove()
    f(X)
    handle = nn.modules.module.register_module_forward_pre_hook(lambda module, args: (args[0] + 1,))
    f(X)
    other = nn.modules.module.register_module_forward_pre_hook(lambda module, args: (args[0] * 2,))
    f(X)
    other.remove()
    handle.remove()
    f(X)
    assert f.total > 8


@case
def weights_change(monkeypatch):
    net = Net()
    f = Checked(net, net)
    f(X)
    with strata.no_grad():
        net.one.weight.mul_(2)
    f(X)
    net.one.weight.data = strata.ones(4, 4)
    f(X)
    net.one.weight = nn.Parameter(strata.full((4, 4), 0.5))
    f.states = [*net.parameters(), *net.buffers()]
    f(X)
    net.one.weight.requires_grad_(False)
    f(X)
    net.one.bias = None
    f.states = [*net.parameters(), *net.buffers()]
    f(X)
    assert f.total > 8


@case
def tied_weights(monkeypatch):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    f = Checked(net, net)
    f(X)
    net[1].weight.data = net[0].weight.data
    f(X)
    assert f.total == 4
    net[1].weight.data = strata.ones(4, 4)
    f(X)
    net[1].weight = net[0].weight
    f(X)


@case
def children_change(monkeypatch):
    net = Net()
    f = Checked(net, net)
    f(X)
    net.two.append(nn.Tanh())
    f(X)
    net.two[0] = nn.Linear(4, 4, bias=False)
    f.states = [*net.parameters(), *net.buffers()]
    f(X)
    net.one.forward = lambda x: x * 3  # an attribute in front of the method
    f(X)
    del net.one.forward
    f(X)
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x @ self.weight)
    f(X)
    assert f.total > 8


@case
def kinds_of_arguments(monkeypatch):
    f = Checked(lambda x, n=1, flag=False, *rest, **named: (x + n if flag else x - n) * len(rest) + sum(named.values()))
    f(X)
    f(X, 2)
    f(X, 2.0)
    f(X, 2, True)
    f(X, 2, 1)
    f(X, 2, True, "a", None)
    f(X, n=3, other=4.0)
    f(X.double())
    f(X.t())
    f(X[:, :2])
    f(X[:0])
    f(X[0, 0])
    f(X.to(strata.int32))
    assert f.total > 20


@case
def containers(monkeypatch):
    class Pair(typing.NamedTuple):
        left: strata.Tensor
        right: float

    def program(tree):
        total = tree["a"][0] * 2 + tree["b"].left * tree["b"].right
        return {"total": total, "pair": Pair(total.exp(), 2.0), "list": [total, (None, 1, "text")]}

    f = Checked(program)
    f({"a": [X, 3], "b": Pair(X + 1, 4.0)})
    f({"a": [X], "b": Pair(X + 1, 4.0)})
    f({"b": Pair(X + 1, 5.0), "a": (X,)})
    assert f.total > 5


@case
def aliases(monkeypatch):
    f = Checked(lambda a, b: (a * 2 + b, a - b))
    f(X, X + 1)

    def one_object():
        x = X.clone()
        return x, x

    def one_memory():
        x = X.clone()
        return x, x.view(3, 4)

    def parts():
        x = strata.arange(24.0).reshape(2, 3, 4)
        return x[0], x[1]

    for fresh in (one_object, one_memory, parts):
        f(fresh=fresh)

    def swaps(a, b):
        a.add_(b)
        b.mul_(a)
        return a

    g = Checked(swaps)
    g(X, X + 1)
    for fresh in (one_object, one_memory, parts):
        g(fresh=fresh)
    assert f.total > 5


@case
def results_that_are_arguments(monkeypatch):
    net = Net()
    f = Checked(lambda x: (x, x.add_(1), net.offset, x.mul_(2)), net)
    f(X)
    Checked(lambda x: x.view(-1))(X)
    Checked(lambda x: x.t())(X)

    def view_of_written(x):
        y = x[0]
        x.add_(1)
        return y

    Checked(view_of_written)(X)
    assert f.total


@case
def views_stay_views(monkeypatch):
    f = strata.compile(lambda x: x.t(), replay=True)
    for _ in range(6):
        x = X.clone()
        y = f(x)
        y[0, 0] = 100.0
        assert x[0, 0] == 100


@case
def writes_to_parts(monkeypatch):
    def program(x):
        x[0] = 7
        x[:, 1].mul_(x[:, 2])
        y = x.clone()
        y[1:].zero_()
        return y.sum(0)

    f = Checked(program)
    f(X)
    assert f.total


@case
def running_statistics(monkeypatch):
    net, twin = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    f = strata.compile(net, replay=True)
    for step in range(9):
        x = X + step
        assert same_bits(f(x), twin(x))
        assert same_bits(net.running_var, twin.running_var) and net.num_batches_tracked == twin.num_batches_tracked
    assert f.variants().graphs[0]["replayed"]


@case
def random_numbers(monkeypatch):
    f = Checked(lambda x: F.dropout(x, 0.5) + strata.rand(4) + strata.randn_like(x))
    f(X)
    assert f.total
    strata.manual_seed(3)
    first = [f.replayed(X) for _ in range(3)]
    strata.manual_seed(3)
    assert all(same_bits(f.plain(X), y) for y in first)
    generator = strata.Generator()
    own = Checked(lambda x: x + strata.rand(4, generator=generator))
    assert not same_bits(own.replayed(X), own.replayed(X))
    assert own.total == 0  # a generator is no value of a graph


@case
def decisions_by_values(monkeypatch):
    f = Checked(lambda x: x * 2 if x.sum() > 3 else x - 1)
    for scale in (1.0, 0.0, 5.0):
        f(X * scale)
    Checked(lambda x: x[x > 0.5])(X)
    g = Checked(lambda x: x * x.max().item())
    g(X)
    g(X * 2)
    assert f.total == g.total == 0
    assert "reads values" in f.graphs[0]["refused"]


@case
def shapes_by_values(monkeypatch):
    f = Checked(lambda x: strata.nonzero(x > 0.5))
    f(X)
    for scale in (2.0, 0.1, 3.0):
        f(X * scale)
        f(X * scale, times=1)
    g = strata.compile(lambda x: (strata.rand(2), strata.nonzero(x > 0.5)), replay=True)
    for _ in range(3):
        g(X)
    strata.manual_seed(1)
    drawn, places = g(X * 3)
    strata.manual_seed(1)
    assert same_bits(drawn, strata.rand(2)) and same_bits(places, strata.nonzero(X * 3 > 0.5))


@case
def python_state_that_calls_change(monkeypatch):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.seen = 0, []

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape)
            return x + self.calls

    plain, other = Counts(), Counts()
    f = strata.compile(other, replay=True)
    for _ in range(6):
        assert same_bits(plain(X), f(X))
    assert other.calls == 6 and len(other.seen) == 6
    assert "changes" in f.variants().graphs[0]["refused"]


@case
def python_randomness(monkeypatch):
    source = random.Random(0)
    f = strata.compile(lambda x: x + source.random(), replay=True)
    assert len({f(X).sum().item() for _ in range(9)}) == 9  # found at call 2, before anything was replayed
    assert "differs from call to call" in f.variants().graphs[0]["refused"]


@case
def prints_stay(monkeypatch):
    lines = []
    f = strata.compile(lambda x: lines.append(str(x.sum())) or x * 2, replay=True)
    for _ in range(5):
        f(X)
    assert len(lines) == 5


@case
def gradients(monkeypatch):
    net = Net()
    f = Checked(lambda x: net(x).square().sum(), net)
    f(X.clone().requires_grad_())
    f(X)
    with strata.no_grad():
        f(X)
    with strata.inference_mode():
        x = X.clone()
        assert f.plain(x).is_inference() == f.replayed(x).is_inference()
    assert f.total > 5
    g = Checked(lambda x: strata.autograd.grad((x**3).sum(), x, create_graph=True)[0])
    g(X.clone().requires_grad_())
    assert g.total


class Doubled(strata.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 100


@case
def gradients_that_are_no_ops(monkeypatch):
    f = Checked(Doubled.apply)
    f(X.clone().requires_grad_())
    assert f.total == 0
    f(X)

    def hooked(x):
        y = x * 2
        if y.requires_grad:
            y.register_hook(lambda g: g * 7)
        return y.sin()

    g = Checked(hooked)
    g(X.clone().requires_grad_())
    assert g.total == 0
    g(X)
    assert g.total


@case
def backward_inside(monkeypatch):
    weight = nn.Parameter(strata.ones(4))

    def step(x):
        loss = (x * weight).sum()
        loss.backward()
        return loss.detach()

    f = strata.compile(step, replay=True)
    for call in range(1, 6):
        f(X)
        assert same_bits(weight.grad, X.sum(0) * call) or strata.allclose(weight.grad, X.sum(0) * call)
    assert [g["refused"] for g in f.variants().graphs] == ["", ""]  # with .grad, and without
    weight.grad = None
    assert same_bits(f(X), (X * weight).sum().detach()) and strata.allclose(weight.grad, X.sum(0))


@case
def reads_of_gradients(monkeypatch):
    weight = nn.Parameter(strata.ones(4))
    f = strata.compile(lambda x: x * weight.grad, replay=True)
    for k in range(6):
        weight.grad = strata.full((4,), float(k))
        assert same_bits(f(X), X * k)


@case
def switches(monkeypatch):
    f = Checked(lambda x: x + strata.ones(4) + strata.full((4,), 0.1))
    f(X)
    strata.set_default_dtype(strata.float64)
    try:
        f(X)
    finally:
        strata.set_default_dtype(strata.float32)
    f(X)
    with strata.autocast("cpu", dtype=strata.bfloat16):
        net = nn.Linear(4, 4)
        g = Checked(net, net)
        g(X)
        with strata.no_grad():
            net.weight.mul_(2)
        g(X)
        assert g.total == 0
    inside = Checked(functools.partial(autocast_inside, net), net)
    inside(X)
    with strata.no_grad():
        net.weight.mul_(2)
    inside(X)
    assert inside.total


def autocast_inside(net, x):
    with strata.autocast("cpu", dtype=strata.bfloat16):
        return net(x)


@case
def errors(monkeypatch):
    def program(x, i):
        if x.shape[0] > 5:
            raise KeyError("rows")
        return strata.gather(x, 1, i)

    f = strata.compile(program, replay=True)
    good, bad = strata.zeros(3, 1, dtype=strata.int64), strata.full((3, 1), 9)
    for _ in range(5):
        f(X, good)
        with pytest.raises(RuntimeError, match="out of bounds"):
            f(X, bad)
        with pytest.raises(KeyError, match="rows"):
            f(strata.ones(6, 4), good)
        with pytest.raises(TypeError):
            f(X)
    assert same_bits(f(X, good), program(X, good))


@case
def nested_and_recursive(monkeypatch):
    inner = strata.compile(lambda x: x * SCALE, replay=True)
    f = Checked(lambda x: inner(x) + inner(x + 1))
    f(X)
    assert f.total

    def fall(x, n):
        return x if n == 0 else compiled(x + n, n - 1)

    compiled = strata.compile(fall, replay=True)
    for _ in range(6):
        assert same_bits(compiled(X, 3), X + 3 + 2 + 1)


@case
def objects(monkeypatch):
    @dataclasses.dataclass
    class Config:
        scale: float
        parts: list

    config = Config(2.0, [1.0])

    class Owner:
        def __init__(self):
            self.config = config

        @strata.compile(replay=True)
        def run(self, x):
            return x * self.config.scale + self.config.parts[0]

    owner = Owner()
    for scale in (2.0, 3.0, 2.0):
        config.scale = scale
        for _ in range(5):
            assert same_bits(owner.run(X), X * scale + 1)
    config.parts[0] = 5.0
    assert same_bits(owner.run(X), X * 2 + 5)
    f = Checked(lambda x, c: x * c.scale)
    f(fresh=lambda: (X.clone(), config))
    config.scale = 11.0
    f(fresh=lambda: (X.clone(), config))
    space = types.SimpleNamespace(a=1.0)
    g = Checked(lambda x: x + space.a)
    g(X)
    space.a = 2.0
    g(X)


@case
def many_variants(monkeypatch):
    f = Checked(lambda x, n: x * n)
    for n in range(30):
        f(X, n, times=3)
    text = str(f.replayed.variants())
    assert len(f.graphs) == 16 and "16 variants" in text and "the arguments" in text


@case
def sizes_zero_and_one(monkeypatch):
    f = Checked(lambda x: (x.sum(0), x * 2, strata.cat([x, x])))
    for shape in ((0,), (0, 3), (1,), (1, 1), (3, 0, 2)):
        f(strata.ones(shape))
    assert f.total > 8


@case
def parametrized(monkeypatch):
    net = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    f = Checked(net, net)
    f(X)
    with strata.no_grad():
        net.parametrizations.weight.original0.mul_(2)
    f(X)


@pytest.mark.parametrize("name", CASES)
def test_as_plain_calls(name, monkeypatch):
    CASES[name](monkeypatch)
