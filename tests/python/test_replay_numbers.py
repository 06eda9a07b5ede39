"""Numbers that differ from call to call become parameters of the graph, if the function only passes them to ops."""

import math

import pytest
import strata
from compiled_programs import same_bits
from strata import _C, nn

F = nn.functional
X = strata.randn(3, 4)


def outcome(f, values, *more):
    """The results of calls with these numbers; the variants with ops."""
    results = [f(X, v, *more) for v in values]
    return results, [g for g in f.variants().graphs if not g["refused"]]


def check(program, values, variants):
    f = strata.compile(program, replay=True)
    results, graphs = outcome(f, values)
    for got, v in zip(results, values, strict=True):
        assert same_bits(got, program(X, v)), v
    assert len(graphs) == variants, f.variants()
    return f, graphs


def test_arguments_of_ops():
    values = [0.5, 0.25, -3.0, 0.1, 0.5, 1e300, -0.0, 0.0, math.inf, *(k / 7 for k in range(30))]
    for program in (
        lambda x, s: x * s,
        lambda x, s: s * x + s,
        lambda x, s: strata.add(x, x, alpha=s).clamp(max=s),
        lambda x, s: (x.clone().mul_(s), x)[0],
        lambda x, s: F.leaky_relu(x, negative_slope=s) if isinstance(s, float) else None,
    ):
        f, graphs = check(program, values, 1)
        assert graphs[0]["numbers"] == 1 and graphs[0]["replayed"] > 25
    results, graphs = outcome(strata.compile(lambda x, s: x * s, replay=True), [0.5, math.nan, math.nan, 0.5])
    assert results[1].isnan().all() and same_bits(results[3], X * 0.5)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, s: x * 2 if s < 1 else x * s,
        lambda x, s: x * s if s else x,
        lambda x, s: x * (s * 0.5),
        lambda x, s: x * -s,
        lambda x, s: x * math.sqrt(abs(s)),
        lambda x, s: x * len(str(s)),
        lambda x, s: x * {0.5: 3.0}.get(s, 4.0),
        lambda x, s: x + strata.full((3, 4), s).long().clamp(-5, 5),
        lambda x, s: sum((x for _ in range(int(abs(s)) % 4)), x),
        lambda x, s: x * round(s, 1),
        lambda x, s: x * max(s, 0.3),
        lambda x, s: x * float(f"{s:.2f}"),
        lambda x, s: x * math.exp(-abs(s)),
        lambda x, s: x * (s in (0.5, 1.5)),
        lambda x, s: x * s.real,
    ],
)
def test_numbers_that_the_function_looks_at(program):
    """They may decide, so each has a graph of its own, and then the function runs."""
    f = strata.compile(program, replay=True)
    for k in range(40):
        s = (0.5, 1.5, -2.25, 0.125)[k % 4] if k < 20 else k / 3
        assert same_bits(f(X, s), program(X, s)), s


def test_two_numbers_that_are_equal_at_first():
    def program(x, a, b):
        return x * a + b

    f = strata.compile(program, replay=True)
    for a, b in [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (4.0, 5.0), (6.0, 7.0), (2.0, 9.0), (3.0, 3.0)] * 2:
        assert same_bits(f(X, a, b), program(X, a, b)), (a, b)


def test_numbers_that_are_returned_or_kept():
    kept = {}

    def returned(x, s):
        return x * s, s

    def stored(x, s):
        kept["s"] = s
        return x * s

    for program in (returned, stored):
        f = strata.compile(program, replay=True)
        for s in (0.5, 0.25, 0.125, 3.0, 4.0):
            got, want = f(X, s), program(X, s)
            if program is returned:
                assert got[1] == want[1] and got[1] == s and same_bits(got[0], want[0])
            else:
                assert same_bits(got, want) and kept["s"] == s


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5
        self.rate = {"p": [0.5]}

    def forward(self, x):
        return x * self.scale + 1


def test_attributes():
    net = Scaled()
    f = strata.compile(net, replay=True)
    for k in range(30):
        net.scale = k / 8
        assert same_bits(f(X), X * (k / 8) + 1)
        assert type(net.scale) is float and net.scale == k / 8
    assert len(f.variants().graphs) == 1 and f.variants().graphs[0]["replayed"] > 20


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "momentum", "two groups"])
def test_schedules(kind, device):
    """A schedule changes the learning rate in each step: one graph, with eager's bits."""

    def run(compiled):
        strata.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        groups = list(net.parameters())
        if kind == "two groups":
            groups = [{"params": groups[:2], "lr": 0.02}, {"params": groups[2:]}]
        options = {"capturable": True} if kind in ("Adam", "AdamW", "two groups") and device != "cpu" else {}
        if kind == "momentum":
            optimizer = strata.optim.SGD(groups, lr=0.1, momentum=0.9)
        else:
            optimizer = getattr(strata.optim, {"two groups": "AdamW"}.get(kind, kind))(groups, lr=0.1, **options)
        schedule = strata.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = strata.compile(step, replay=True) if compiled else step
        losses = []
        for _ in range(20):
            losses.append(f(strata.randn(5, 4, device=device)).item())
            schedule.step()
        return losses, [p.tolist() for p in net.parameters()], f

    plain, compiled = run(False), run(True)
    assert plain[:2] == compiled[:2]
    graphs = [g for g in compiled[2].variants().graphs if not g["refused"]]
    assert len(graphs) == 1 and graphs[0]["replayed"] > 10, compiled[2].variants()


def test_checked_calls_with_numbers():
    _C._check_compiled(True)
    try:
        check(lambda x, s: (x * s).tanh() + s, [0.5, 0.25, 0.125, 2.0, 3.0, 4.0], 1)
    finally:
        _C._check_compiled(False)
