"""Whole training steps in a captured graph: every optimizer, random numbers, gradients in place, the small CNN."""

import os

import numpy as np
import pytest
import strata
from optimizer_formulas import CASES
from strata import nn, optim

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
gpu = getattr(strata, DEVICE)
F = nn.functional
IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]


def captured(step):
    graph = gpu.CUDAGraph()
    with gpu.graph(graph):
        step()
    return graph.replay


def bits(t):
    return t.detach().cpu().numpy().tobytes()


def small_model(seed=0):
    strata.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(DEVICE)


def run(make_optimizer, steps, use_graph, model=None, change=lambda i, optimizer: None):
    """The parameters and losses after some steps, the first of them always eager."""
    model = model or small_model()
    optimizer = make_optimizer(model.parameters())
    x, target = strata.zeros(4, 5, device=DEVICE), strata.zeros(4, 3, device=DEVICE)
    data = np.random.default_rng(0).standard_normal((steps, 4, 8))
    loss = strata.zeros((), device=DEVICE)

    def step():
        optimizer.zero_grad()
        now = ((model(x) - target) ** 2).mean()
        now.backward()
        optimizer.step()
        loss.copy_(now.detach())

    losses = []
    for i in range(steps):
        change(i, optimizer)
        batch = strata.tensor(data[i].tolist())
        x.copy_(batch[:, :5]), target.copy_(batch[:, 5:])
        if use_graph and i == 1:
            optimizer.zero_grad()
            step = captured(step)
        step()
        losses.append(loss.item())
    return [bits(p) for p in model.parameters()], losses


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_replays_are_eager_steps_in_bits(name, options):
    def make(params):
        return getattr(optim, name)(params, capturable=True, **options)

    eager, graph = (run(make, 6, use_graph) for use_graph in (False, True))
    assert eager == graph and len(set(graph[1])) == 6


def test_muon_is_captured_too():
    def make(params):
        return optim.Muon([p for p in params if p.ndim == 2], lr=0.01)

    assert run(make, 4, False) == run(make, 4, True)


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_step_counts_on_the_device_change_nothing(name, options):
    results = []
    for capturable in (False, True):
        model = small_model().to(strata.float64)
        optimizer = getattr(optim, name)(model.parameters(), capturable=capturable, **options)
        rng = np.random.default_rng(1)
        for _ in range(12):
            for p in model.parameters():
                p.grad = strata.tensor(rng.standard_normal(tuple(p.shape)).tolist(), dtype=p.dtype).to(DEVICE)
            optimizer.step()
        results.append(np.concatenate([p.detach().cpu().numpy().reshape(-1) for p in model.parameters()]))
        for state in optimizer.state.values():
            if "step" in state:
                assert state["step"].device.type == (DEVICE if capturable else "cpu") and state["step"].item() == 12
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12, atol=1e-13)


def test_a_learning_rate_on_the_device_is_followed_by_replays():
    def make(params):
        return optim.Adam(params, lr=strata.tensor(0.1, device=DEVICE), capturable=True)

    def change(i, optimizer):
        optimizer.param_groups[0]["lr"].fill_(0.1 / (i + 1))

    eager, graph = (run(make, 5, use_graph, change=change) for use_graph in (False, True))
    assert eager == graph

    def sgd(params):
        return optim.SGD(params, lr=strata.tensor(0.1, device=DEVICE), momentum=0.9)

    assert run(sgd, 5, False, change=change) == run(sgd, 5, True, change=change)
    number = run(lambda params: optim.SGD(params, lr=0.1, momentum=0.9), 5, True)
    assert number != run(sgd, 5, True, change=change)  # a number is part of the graph


def test_schedulers_write_into_a_learning_rate_on_the_device():
    p = strata.ones(2, device=DEVICE).requires_grad_()
    optimizer = optim.SGD([p], lr=strata.tensor(0.5, device=DEVICE))
    rate = optimizer.param_groups[0]["lr"]
    schedule = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    p.grad = strata.ones_like(p)
    optimizer.step(), schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25


def test_state_goes_between_optimizers_that_are_capturable_and_not():
    def make(capturable):
        p = strata.ones(3, device=DEVICE).requires_grad_()
        p.grad = strata.ones_like(p)
        return p, optim.NAdam([p], lr=0.1, capturable=capturable)

    for first, second in ((False, True), (True, False), (True, True)):
        p, old = make(first)
        old.step(), old.step()
        q, new = make(second)
        new.load_state_dict(old.state_dict())
        assert new.param_groups[0]["capturable"] == second
        for name in ("step", "mu_product"):
            assert new.state[q][name].device.type == (DEVICE if second else "cpu")
        with strata.no_grad():
            q.copy_(p)
        old.step(), new.step()
        np.testing.assert_allclose(q.detach().cpu().numpy(), p.detach().cpu().numpy(), rtol=1e-7)


def test_what_cannot_be_captured_says_so():
    p = strata.ones(4, device=DEVICE).requires_grad_()
    p.grad = strata.ones(4, device=DEVICE)
    optimizer = optim.Adam([p])
    optimizer.step()
    with pytest.raises(RuntimeError, match="capturable=True"), gpu.graph(gpu.CUDAGraph()):
        optimizer.step()
    optimizer.step()
    for new in (optim.Adam([p], capturable=True), optim.SGD([p], momentum=0.9)):
        with pytest.raises(RuntimeError, match="take a step before the capture"), gpu.graph(gpu.CUDAGraph()):
            new.step()
        assert not new.state[p]
    with pytest.raises(RuntimeError, match="custom generator"), gpu.graph(gpu.CUDAGraph()):
        p.detach().clone().normal_(generator=strata.Generator())
    with pytest.raises(RuntimeError), gpu.graph(gpu.CUDAGraph()):
        (p * 2).sum().item()
    with pytest.raises(RuntimeError), gpu.graph(gpu.CUDAGraph()):
        optim.LBFGS([p]).step(lambda: (p * p).sum())  # decides on the host how to go on
    with pytest.raises(RuntimeError, match="not pinned"), gpu.graph(gpu.CUDAGraph()):
        p.detach().copy_(strata.ones(4))
    assert strata.isfinite(p.detach()).all().item()


def test_capturing_is_seen():
    assert not gpu.is_current_stream_capturing()
    with gpu.graph(gpu.CUDAGraph()):
        assert gpu.is_current_stream_capturing()
    assert not gpu.is_current_stream_capturing()


def test_random_numbers_go_on_from_replay_to_replay():
    def draw():
        return [
            strata.rand(10, device=DEVICE),
            strata.randn(7, device=DEVICE),
            F.dropout(strata.ones(33, device=DEVICE), 0.5),
            strata.randint(0, 1000, (5,), device=DEVICE),
        ]

    strata.manual_seed(7)
    eager = [[t.tolist() for t in draw()] for _ in range(4)]
    strata.manual_seed(7)
    results = []
    graph = gpu.CUDAGraph()
    with gpu.graph(graph):
        results = draw()
    seen = []
    for _ in range(4):
        graph.replay()
        seen.append([t.tolist() for t in results])
    assert seen == eager
    strata.manual_seed(7)
    graph.replay()
    assert [t.tolist() for t in results] == eager[0]
    assert [t.tolist() for t in draw()] == eager[1]  # outside the graph, too


def test_gradients_accumulate_in_place():
    p = strata.ones(3, device=DEVICE).requires_grad_()
    x = strata.ones(3, device=DEVICE)
    (p * x).sum().backward()
    replay = captured(lambda: (p * x).sum().backward())
    for i in range(3):
        x.fill_(i + 2.0)
        replay()
    assert p.grad.tolist() == [10.0] * 3
    optimizer = optim.SGD([p], lr=0.0)

    def anew():
        optimizer.zero_grad(set_to_none=False)
        (p * x).sum().backward()

    replay = captured(anew)
    for _ in range(2):
        replay()
        assert p.grad.tolist() == [4.0] * 3


def cnn(seed):
    strata.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 10),
    ).to(DEVICE)  # fmt: skip


def train_cnn(steps, use_graph):
    model = cnn(3)
    optimizer = optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    rng = np.random.default_rng(0)
    images = strata.tensor(rng.standard_normal((steps, 4, 1, 16, 16)).astype("float32").tolist())
    labels = strata.tensor(rng.integers(0, 10, (steps, 4)).tolist())
    x, target = strata.zeros(4, 1, 16, 16, device=DEVICE), strata.zeros(4, dtype=strata.int64, device=DEVICE)
    loss = strata.zeros((), device=DEVICE)

    def step():
        optimizer.zero_grad()
        now = F.cross_entropy(model(x), target)
        now.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.copy_(now.detach())

    losses = []
    for i in range(steps):
        x.copy_(images[i].pin_memory(DEVICE), non_blocking=True)
        target.copy_(labels[i].pin_memory(DEVICE), non_blocking=True)
        if use_graph and i == 1:
            step = captured(step)
        step()
        losses.append(loss.item())
    return losses, [bits(p) for p in model.parameters()]


def test_a_captured_training_step_of_a_cnn_equals_eager_steps_in_bits():
    eager, graph = train_cnn(5, False), train_cnn(5, True)
    assert eager == graph and len(set(graph[0])) == 5
