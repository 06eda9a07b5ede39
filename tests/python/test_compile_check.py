"""STRATA_COMPILE=check: compiled functions run both ways. Planted faults are found and named; right programs pass, and are left as they
are by the second run."""

import os
import subprocess
import sys

import pytest
import strata
from compiled_programs import random_program, row_program, same_bits, trained_network, with_gradients
from strata import _C, nn

F = nn.functional
DEVICES = ["cpu", "vgpu"]


@pytest.fixture
def checks():
    _C._check_compiled(True)
    least = _C._set_least_deferred(1)
    yield
    _C._check_compiled(False)
    _C._set_least_deferred(least)
    _C._plant_compile_faults("", "")


def error_of(call):
    with pytest.raises(RuntimeError, match="STRATA_COMPILE=check") as caught:
        call()
    return str(caught.value)


# --- groups -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", DEVICES)
def test_a_wrong_result_of_a_group_is_named(checks, device):
    x = strata.randn(6, 8, device=device)

    def program(x):
        y = x * 1.5
        z = y.tanh()
        return y + 1, z * x

    f = strata.compile(program)
    assert all(same_bits(a, b) for a, b in zip(f(x), program(x), strict=True))
    _C._plant_compile_faults("add", "")
    text = error_of(lambda: f(x))
    assert "add at test_compile_check.py:" in text and "[6, 8]" in text
    assert "1 of 48 elements, most at [0, 0]" in text and "ended by" in text
    assert f(x[:0])[0].shape == (0, 8)  # nothing to be wrong; and the fault leaves nothing behind
    _C._plant_compile_faults("", "")
    assert same_bits(f(x)[1], program(x)[1])


@pytest.mark.parametrize("fault", ["softmax", "mul", "_layer_norm", "native_dropout", "mul_"])
def test_faults_of_rows_gradients_and_writes(checks, fault):
    def step(x, w):
        x, w = (t.detach().requires_grad_() for t in (x, w))
        y = F.layer_norm(F.dropout(x, 0.3), w.shape, w).softmax(-1)
        written = (y.detach() + 1).mul_(3)
        (y * written).sum().backward()
        return x.grad, w.grad, written

    x, w = strata.randn(6, 8), strata.randn(8)
    f = strata.compile(step)
    strata.manual_seed(3)
    want = step(x, w)
    strata.manual_seed(3)
    assert all(same_bits(a, b) for a, b in zip(f(x, w), want, strict=True))
    _C._plant_compile_faults(fault.rstrip("_"), "")
    assert f" {fault.rstrip('_')} at test_compile_check.py:" in error_of(lambda: f(x, w))


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_programs_pass(checks, first):
    for seed in range(first, first + 40):
        shapes, run = random_program(seed)
        inputs = [strata.randn(*shape) for shape in shapes]
        strata.manual_seed(seed)
        want = run(*inputs)
        strata.manual_seed(seed)
        assert repr(strata.compile(run)(*inputs)) == repr(want), seed
        rows = with_gradients(row_program(seed))
        x, w = strata.randn(6, 8), strata.randn(8)
        strata.manual_seed(seed)
        want = rows(x, w)
        strata.manual_seed(seed)
        assert repr(strata.compile(rows)(x, w)) == repr(want), seed


# --- replayed calls ---------------------------------------------------------------------------------------------------
def trained(device, replay, steps=6):
    strata.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 3)).to(device)
    optimizer = strata.optim.AdamW(net.parameters(), lr=0.01, capturable=device != "cpu")

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    f = strata.compile(step, replay=True) if replay else step
    losses = [f(strata.randn(4, 8, device=device)).item() for _ in range(steps)]
    return losses, [t.tolist() for t in (*net.parameters(), *net.buffers())], strata.rand(1).item()


@pytest.mark.parametrize("device", DEVICES)
def test_training_steps_pass_and_are_not_changed(checks, device):
    assert trained(device, True) == trained(device, False)


def test_compiled_training_passes(checks):
    plain, checked = trained_network(lambda f: f), trained_network(strata.compile)
    assert all(same_bits(a, b) for part in (0, 1) for a, b in zip(plain[part], checked[part], strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fault", ["sub", "nn.functional.linear", "mm", "_fused_adam"])
def test_a_wrong_graph_is_named(checks, device, fault):
    """The graph of a training step calls one op wrongly."""
    net = nn.Linear(4, 4).to(device)
    optimizer = strata.optim.AdamW(net.parameters(), lr=0.01, capturable=device != "cpu")

    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = strata.compile(step, replay=True)
    given = [strata.randn(4, 4, device=device) for _ in range(2)]
    f(*given)  # creates the state of the optimizer
    _C._plant_compile_faults("", fault)
    f(*given)
    before = [t.tolist() for t in net.parameters()]
    text = error_of(lambda: f(*given))
    assert f"The first node that differs: {fault} at test_compile_check.py:" in text, text
    assert "elements, most at [" in text
    assert [t.tolist() for t in net.parameters()] != before  # the function itself has run


def test_faults_that_only_gradients_show(checks):
    """The results of the call are right, the tape that it leaves is not."""
    f = strata.compile(lambda x: (x - x.detach()) * 3.0, replay=True)
    x = strata.randn(3, requires_grad=True)
    for _ in range(4):
        assert strata.autograd.grad(f(x).sum(), x)[0].tolist() == [3, 3, 3]
    g = strata.compile(lambda x: (x - x.detach()) * 3.0, replay=True)
    _C._plant_compile_faults("", "mul")  # * 4
    g(x)
    text = error_of(lambda: g(x))
    assert "a gradient of result 0: 3 of 3 elements, most at" in text
    assert "No node has another result when it runs alone" in text


def test_writes_draws_and_gradients_of_a_checked_call_happen_once(checks):
    calls = []

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", strata.zeros(3))

        def forward(self, x):
            self.seen.add_(1)
            x.mul_(2)
            return x + strata.rand(3) + self.seen

    def run(wrap):
        net = Noisy()
        f, x = wrap(net), strata.ones(3)
        strata.manual_seed(1)
        return [f(x).tolist() for _ in range(6)], x.tolist(), net.seen.tolist(), strata.rand(1).item()

    assert run(lambda m: strata.compile(m, replay=True)) == run(lambda m: m)
    f = strata.compile(lambda x: (calls.append(1), x + 1)[1], replay=True)  # changes a list: never replayed
    for _ in range(3):
        f(strata.ones(2))
    assert len(calls) == 3


# --- the environment --------------------------------------------------------------------------------------------------
def run(text, **environment):
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


PROGRAM = """
import strata
f = strata.compile(lambda x: strata.tanh(x * 2) + 1, replay=True)
x = strata.randn(200, 200)
for _ in range(4):
    assert strata.equal(f(x), strata.tanh(x * 2) + 1)
print(type(f).__name__, f.variants().graphs[0]["replayed"] if hasattr(f, "variants") else None)
"""


@pytest.mark.parametrize(
    ("value", "shown"),
    [("0", "function None"), ("1", "CompiledFunction 1"), ("", "CompiledFunction 1"), ("check", "CompiledFunction 0")],
)
def test_the_switch(value, shown):
    done = run(PROGRAM, STRATA_COMPILE=value)
    assert done.stdout.strip() == shown, done.stderr


@pytest.mark.parametrize("value", ["2", "Check", "on", " 1", "everywher"])
def test_a_wrong_switch(value):
    done = run("import strata", STRATA_COMPILE=value)
    assert done.returncode == 1
    assert f"ValueError: STRATA_COMPILE is '{value}'; expected 0" in done.stderr
