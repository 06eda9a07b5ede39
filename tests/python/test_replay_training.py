"""Training steps as replayed calls: forward, backward(), clipping and the optimizer's step inside strata.compile(replay=True).

Two copies of a model and its optimizer train side by side, one with the plain step and one with the replayed one. After every call
loss, parameters, gradients, buffers and optimizer state have the same bits.
"""

import copy
import os

import pytest
import strata
import strata.nn.functional as F
from strata import nn
from strata.utils.checkpoint import checkpoint

DEVICES = ["cpu", os.environ.get("STRATA_TEST_DEVICE", "vgpu")]


def bits(t):
    return t.detach().cpu().contiguous().reshape(-1).view(strata.uint8)


def assert_same(a, b, what):
    assert (a is None) == (b is None), what
    if a is None:
        return
    assert a.dtype == b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad, what
    assert strata.equal(bits(a), bits(b)), what


class Side:
    """One model with its optimizer; `step` takes this object and a batch."""

    def __init__(self, model, optimizer, step, device, replay):
        self.model = copy.deepcopy(model).to(device)
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = optimizer(params)
        self.step = (
            strata.compile(lambda *batch: step(self, *batch), replay=True) if replay else lambda *b: step(self, *b)
        )

    def state(self):
        entries = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        entries |= {f"{name}.grad": p.grad for name, p in self.model.named_parameters()}
        for i, p in enumerate(p for g in self.optimizer.param_groups for p in g["params"]):
            entries |= {f"{i}.{k}": v for k, v in self.optimizer.state[p].items() if isinstance(v, strata.Tensor)}
        return entries


def train(model, step, device, optimizer=None, batches=None, calls=9, between=None, returns=assert_same):
    """The two sides after training; all calls are compared."""
    optimizer = optimizer or (lambda params: strata.optim.SGD(params, lr=0.05, momentum=0.9))
    batches = batches or (lambda i: (strata.randn(8, 6), strata.randint(0, 3, (8,))))
    sides = [Side(model, optimizer, step, device, replay) for replay in (False, True)]
    for i in range(calls):
        strata.manual_seed(100 + i)
        batch = [t.to(device) for t in batches(i)]
        results = []
        for side in sides:
            if between:
                between(side, i)
            strata.manual_seed(i)
            results.append((side.step(*copy.deepcopy(batch)), strata.rand(1)))
        returns(results[0][0], results[1][0], f"result of call {i}")
        assert_same(results[0][1], results[1][1], f"random numbers after call {i}")
        plain, replayed = (side.state() for side in sides)
        assert plain.keys() == replayed.keys()
        for name in plain:
            assert_same(plain[name], replayed[name], f"{name} after call {i}")
    return sides


def replays(side):
    return sum(g["replayed"] for g in side.step.variants().graphs)


def mlp():
    strata.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def usual_step(side, x, y):
    side.optimizer.zero_grad()
    loss = F.cross_entropy(side.model(x), y)
    loss.backward()
    side.optimizer.step()
    return loss.detach()


OPTIMIZERS = {
    "SGD": lambda p: strata.optim.SGD(p, lr=0.1),
    "momentum": lambda p: strata.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "AdamW": lambda p: strata.optim.AdamW(p, lr=0.01),
    "amsgrad": lambda p: strata.optim.Adam(p, lr=0.01, amsgrad=True),
    "NAdam": lambda p: strata.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: strata.optim.RAdam(p, lr=0.01),
    "Adamax": lambda p: strata.optim.Adamax(p),
    "Adagrad": lambda p: strata.optim.Adagrad(p),
    "Adadelta": lambda p: strata.optim.Adadelta(p),
    "RMSprop": lambda p: strata.optim.RMSprop(p, momentum=0.5, centered=True),
    "Rprop": lambda p: strata.optim.Rprop(p),
    "ASGD": lambda p: strata.optim.ASGD(p),
    "two groups": lambda p: strata.optim.AdamW([{"params": p[:1], "lr": 0.1}, {"params": p[1:]}], lr=0.01),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name, device):
    sides = train(mlp(), usual_step, device, OPTIMIZERS[name])
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def cnn():
    strata.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(36, 3),
    )


def images(i):
    return strata.randn(8, 1, 8, 8), strata.randint(0, 3, (8,))


@pytest.mark.parametrize("device", DEVICES)
def test_convolutions_with_buffers_and_dropout(device):
    sides = train(cnn(), usual_step, device, OPTIMIZERS["AdamW"], images)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


@pytest.mark.parametrize("device", DEVICES)
def test_clipping(device):
    def step(side, x, y):
        side.optimizer.zero_grad()
        F.cross_entropy(side.model(x), y).backward()
        norm = nn.utils.clip_grad_norm_(side.model.parameters(), 0.1)
        side.optimizer.step()
        return norm

    sides = train(mlp(), step, device)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("to_none", [True, False])
def test_accumulation_outside(device, to_none):
    def step(side, x, y):
        loss = F.cross_entropy(side.model(x), y)
        loss.backward()
        return loss.detach()

    def between(side, i):
        if i % 3 == 0:
            if i:
                side.optimizer.step()
            side.optimizer.zero_grad(set_to_none=to_none)

    sides = train(mlp(), step, device, calls=24, between=between)
    assert replays(sides[1]) >= 6, sides[1].step.variants()


@pytest.mark.parametrize("device", DEVICES)
def test_accumulation_inside(device):
    def step(side, x, y):
        side.optimizer.zero_grad(set_to_none=False)
        for part in range(2):
            (F.cross_entropy(side.model(x[part::2]), y[part::2]) / 2).backward()
        side.optimizer.step()

    sides = train(mlp(), step, device, returns=lambda a, b, what: a is b is None)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_gradients_appear_and_go():
    """zero_grad(), a step without gradients, and calls that find them or not: each is its own variant."""

    def step(side, x, y):
        loss = F.cross_entropy(side.model(x), y)
        loss.backward()
        side.optimizer.step()
        return loss.detach()

    def between(side, i):
        if i % 2 == 0:
            side.optimizer.zero_grad()
        if i % 5 == 4:
            side.model[0].bias.grad = strata.ones(16)

    sides = train(mlp(), step, "cpu", calls=40, between=between)
    assert replays(sides[1]) >= 10, sides[1].step.variants()


def test_only_zero_grad_and_only_step():
    for step in (lambda side, x, y: side.optimizer.zero_grad(), lambda side, x, y: side.optimizer.step()):

        def between(side, i):
            if i % 3:
                for k, p in enumerate(side.model.parameters()):
                    p.grad = None if (i + k) % 4 == 0 and i < 12 else p.detach() * 0.1

        train(mlp(), step, "cpu", calls=24, between=between, returns=lambda a, b, what: a is b is None)


@pytest.mark.parametrize("device", DEVICES)
def test_average_of_weights(device):
    def step(side, x, y):
        loss = usual_step(side, x, y)
        with strata.no_grad():
            for mean, p in zip(side.means, side.model.parameters(), strict=True):
                mean.lerp_(p, 0.1)
        return [loss, *side.means]

    def between(side, i):
        if i == 0:
            side.means = [p.detach().clone() for p in side.model.parameters()]

    def same(a, b, what):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, what)

    sides = train(mlp(), step, device, between=between, returns=same)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_recurrent_network():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(6, 8, num_layers=2, batch_first=True)
            self.out = nn.Linear(8, 3)

        def forward(self, x):
            return self.out(self.rnn(x)[0]).flatten(0, 1)

    strata.manual_seed(3)
    batches = lambda i: (strata.randn(4, 5, 6), strata.randint(0, 3, (20,)))  # noqa: E731
    sides = train(Tagger(), usual_step, "cpu", OPTIMIZERS["AdamW"], batches)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_shared_and_frozen_parameters():
    strata.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    model[2].weight = model[0].weight
    model[4].bias.requires_grad = False
    sides = train(model, usual_step, "cpu")
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_gradient_of_an_argument():
    def step(side, x, y):
        x.requires_grad_()
        loss = F.cross_entropy(side.model(x), y)
        (g,) = strata.autograd.grad(loss, x)
        with strata.no_grad():
            return x + 0.1 * g.sign()

    train(mlp(), step, "cpu")

    def leaf(x):
        (x * x).sum().backward()
        return x.detach() * 2

    fast = strata.compile(leaf, replay=True)
    for i in range(8):
        x = strata.full((4,), float(i), requires_grad=True)
        assert strata.equal(fast(x), x.detach() * 2)
        assert strata.equal(x.grad, 2 * x.detach())
        assert fast(x) is not None and strata.equal(x.grad, 4 * x.detach())  # accumulated
    assert sum(g["replayed"] for g in fast.variants().graphs) >= 6


def test_second_derivative():
    def step(side, x, y):
        side.optimizer.zero_grad()
        x = x.detach().requires_grad_()
        out = side.model(x)
        (g,) = strata.autograd.grad(out.sum(), x, create_graph=True)
        loss = F.cross_entropy(out, y) + (g.norm(dim=1) - 1).square().mean()
        loss.backward()
        side.optimizer.step()
        return loss.detach()

    strata.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    sides = train(model, step, "cpu")
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_two_optimizers():
    strata.manual_seed(6)
    model = nn.ModuleDict({"g": nn.Linear(4, 6), "d": nn.Linear(6, 1)})

    def step(side, x, y):
        fake = side.model["g"](strata.randn(8, 4))
        for p in side.model["d"].parameters():
            p.grad = None
        (F.softplus(side.model["d"](fake.detach())) + F.softplus(-side.model["d"](x))).mean().backward()
        side.of_d.step()
        for p in side.model["g"].parameters():
            p.grad = None
        F.softplus(-side.model["d"](fake)).mean().backward()
        side.of_g.step()
        return fake.detach()

    def between(side, i):
        if i == 0:
            side.of_d = strata.optim.Adam(side.model["d"].parameters(), lr=0.01)
            side.of_g = strata.optim.Adam(side.model["g"].parameters(), lr=0.01)

    sides = train(model, step, "cpu", between=between)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_autocast_inside():
    def step(side, x, y):
        side.optimizer.zero_grad()
        with strata.autocast("cpu", dtype=strata.bfloat16):
            loss = F.cross_entropy(side.model(x).float(), y)
        loss.backward()
        side.optimizer.step()
        return loss.detach()

    sides = train(mlp(), step, "cpu", OPTIMIZERS["AdamW"])
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_checkpoints_inside():
    """Recomputation moves the generator back, which a graph does not: the step runs."""

    def step(side, x, y):
        side.optimizer.zero_grad()
        hidden = checkpoint(lambda t: F.dropout(side.model[0](t), 0.5), x, use_reentrant=False)
        loss = F.cross_entropy(side.model[2](hidden), y)
        loss.backward()
        side.optimizer.step()
        return loss.detach()

    train(mlp(), step, "cpu")


def test_seeds_inside():
    def step(side, x, y):
        strata.manual_seed(5)
        return usual_step(side, F.dropout(x), y)

    sides = train(mlp(), step, "cpu")
    assert replays(sides[1]) == 0
    assert "generator" in str(sides[1].step.variants())


def test_schedules():
    """Another learning rate is another graph; after sixteen the function runs."""

    def between(side, i):
        for group in side.optimizer.param_groups:
            group["lr"] = 0.1 / (1 + i // 4)

    sides = train(mlp(), usual_step, "cpu", calls=40, between=between)
    assert replays(sides[1]) >= 8, sides[1].step.variants()


def test_hooks_of_parameters():
    def between(side, i):
        if i == 5:
            side.model[0].weight.register_hook(lambda g: g * 2)

    sides = train(mlp(), usual_step, "cpu", calls=12, between=between)
    assert "hooks" in str(sides[1].step.variants())


@pytest.mark.parametrize("retain", [False, True])
def test_loss_with_its_tape(retain):
    """A returned loss has a grad_fn; its tape is used up, unless the graph was retained."""

    def step(side, x, y):
        side.optimizer.zero_grad()
        loss = F.mse_loss(side.model(x).sum(1), y.float())
        loss.backward(retain_graph=retain)
        return loss

    def compare(a, b, what):
        assert_same(a, b, what)
        assert a.requires_grad and b.requires_grad and not a.is_leaf and not b.is_leaf
        assert type(a.grad_fn).__name__ == type(b.grad_fn).__name__
        errors = []
        for loss in (a, b):
            try:
                loss.backward()
                errors.append("")
            except RuntimeError as e:
                errors.append(str(e)[:60])
        assert errors[0] == errors[1]
        assert bool(errors[0]) != retain

    sides = train(mlp(), step, "cpu", returns=compare)
    assert replays(sides[1]) >= 3, sides[1].step.variants()


def test_steps_do_not_copy_parameters():
    """Parameters and state are updated where they are: a replayed step needs no more memory than a plain one."""
    weight = strata.nn.Parameter(strata.randn(1000, 1000))
    optimizer = strata.optim.AdamW([weight], lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = (weight * 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    fast = strata.compile(step, replay=True)
    for _ in range(6):
        fast()
    address = weight.data_ptr()
    before = weight._version
    strata.reset_peak_memory_stats()
    held = strata.memory_stats()["allocated_bytes"]
    fast()
    assert weight.data_ptr() == address and weight._version > before
    assert strata.memory_stats()["peak_allocated_bytes"] - held < 3 * weight.nbytes


def test_launched_step():
    """On a GPU a whole step is one CUDA graph; step counts must be on the device."""
    device = DEVICES[1]
    sides = train(mlp(), usual_step, device, lambda p: strata.optim.AdamW(p, lr=0.01, capturable=True), calls=12)
    assert "clone" not in sides[1].step.variants().graphs[-1]["graph"]
    launched = sum(g["launched"] for g in sides[1].step.variants().graphs)
    assert launched >= 3, [g["not_launched"] for g in sides[1].step.variants().graphs]


def test_inference_mode_inside():
    net = mlp().eval()

    def f(x):
        with strata.inference_mode():
            return net(x)

    fast = strata.compile(f, replay=True)
    for _ in range(8):
        x = strata.randn(2, 6)
        assert strata.equal(fast(x), f(x)) and fast(x).is_inference() == f(x).is_inference()
    assert sum(g["replayed"] for g in fast.variants().graphs) >= 8


def test_gradients_that_are_held_stay():
    """A gradient that the caller keeps is not overwritten by the next call."""
    for device in DEVICES:
        model = mlp().to(device)
        optimizer = strata.optim.SGD(model.parameters(), lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(x).square().mean().backward()

        fast = strata.compile(step, replay=True)
        kept = []
        for i in range(8):
            fast(strata.full((2, 6), float(i), device=device))
            kept.append((model[0].weight.grad, model[0].weight.grad.clone()))
        assert all(strata.equal(a, b) for a, b in kept)
        assert len({id(a) for a, _ in kept}) == len(kept)


def test_decisions_by_values_inside():
    """Backward through cond uses values of the branch that ran: such a step is not replayed, its results are right."""

    def step(side, x, y):
        side.optimizer.zero_grad()
        out = strata.cond(x.sum() > 0, lambda t: side.model(t).sin(), lambda t: side.model(t) * 2, (x,))
        loss = F.cross_entropy(out, y)
        loss.backward()
        side.optimizer.step()
        return loss.detach()

    sides = train(mlp(), step, "cpu")
    assert replays(sides[1]) == 0
    assert "gradient of cond" in str(sides[1].step.variants())


def test_captured_gradients_of_composites():
    """A strict capture does not keep values from inside a node as constants."""
    weight = strata.randn(6, 3, requires_grad=True)

    def f(x, y):
        return strata.autograd.grad(F.cross_entropy(x @ weight, y), weight)[0]

    x, y = strata.randn(8, 6), strata.randint(0, 3, (8,))
    with pytest.raises(NotImplementedError, match="composites=False"):
        strata.export.Graph.capture(f, [x, y], states=[("weight", weight)])
    graph = strata.export.Graph.capture(f, [x, y], states=[("weight", weight)], composites=False)
    other = strata.randn(8, 6), strata.randint(0, 3, (8,))
    assert strata.equal(graph.run(list(other))[0], f(*other))
