"""Optimizers with master_weights: parameters of 16 bits take the steps of float32 ones with the same gradients."""

import copy
import io

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE
from optimizer_formulas import CASES
from strata import optim

HALVES = [strata.float16, strata.bfloat16]
SHAPES = [(3,), (), (2, 5), (0,), (4, 3)]
RUNS = [(name, options) for name, options in CASES if name != "LBFGS"]


def gradients(steps, seed=0):
    rng = np.random.default_rng(seed)
    return [[rng.standard_normal(s) * 0.1 if rng.random() < 0.8 else None for s in SHAPES] for _ in range(steps)]


class Pair:
    """Parameters of 16 bits with master weights, and float32 ones that get the same gradients."""

    def __init__(self, name, options, dtype, device="cpu"):
        rng = np.random.default_rng(1)
        shapes = [s for s in SHAPES if name != "Muon" or len(s) == 2]
        start = [strata.tensor(rng.standard_normal(s).tolist()).reshape(s).to(dtype).to(device) for s in shapes]
        self.name, self.options, self.dtype = name, options, dtype
        self.small = [t.clone().requires_grad_() for t in start]
        self.wide = [t.float().requires_grad_() for t in start]
        self.masters = getattr(optim, name)(self.small, master_weights=True, **options)
        self.plain = getattr(optim, name)(self.wide, **options)

    def step(self, grads):
        grads = [g for g in grads if self.name != "Muon" or g is None or g.ndim == 2][: len(self.small)]
        for p, q, g in zip(self.small, self.wide, grads, strict=False):
            if g is not None and g.shape != tuple(p.shape):
                g = None
            p.grad = None if g is None else strata.tensor(g.tolist()).reshape(g.shape).to(p.device).to(self.dtype)
            q.grad = None if g is None else p.grad.float()
        self.masters.step()
        self.plain.step()

    def check(self):
        for p, q in zip(self.small, self.wide, strict=True):
            assert p.dtype == self.dtype and strata.equal(p.detach(), q.detach().to(self.dtype))
            theirs = self.plain.state.get(q, {})
            ours = dict(self.masters.state.get(p, {}))
            if ours:
                assert strata.equal(ours.pop("master_param"), q.detach())
            assert ours.keys() == theirs.keys()
            for name, value in theirs.items():
                assert ours[name].dtype == value.dtype and strata.equal(ours[name], value), name


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name, options", RUNS, ids=lambda v: v if isinstance(v, str) else "")
def test_the_bits_of_float32(name, options, dtype):
    pair = Pair(name, options, dtype)
    for grads in gradients(6):
        pair.step(grads)
        pair.check()


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Muon"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_on_a_device(name, dtype):
    options = {"SGD": dict(lr=0.1, momentum=0.9), "AdamW": dict(lr=0.1, amsgrad=True), "Muon": dict(lr=0.1)}[name]
    pair = Pair(name, options, dtype, DEVICE)
    for grads in gradients(4):
        pair.step(grads)
        pair.check()


def test_small_steps_are_not_lost():
    plain, kept = (strata.ones(1, dtype=strata.bfloat16, requires_grad=True) for _ in range(2))
    for p, master_weights in ((plain, False), (kept, True)):
        optimizer = optim.SGD([p], lr=1e-3, master_weights=master_weights)
        for _ in range(64):
            p.grad = strata.ones_like(p)
            optimizer.step()
    assert plain.item() == 1  # 1 - 1e-3 rounds to 1
    assert kept.item() == pytest.approx(1 - 64e-3, abs=4e-3)


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam"])
def test_saved_and_resumed(name):
    options = {"SGD": dict(lr=0.1, momentum=0.9)}.get(name, dict(lr=0.1))
    pair, steps = Pair(name, options, strata.bfloat16), gradients(6)
    for grads in steps[:3]:
        pair.step(grads)
    file = io.BytesIO()
    strata.save(pair.masters.state_dict(), file)
    file.seek(0)
    pair.masters = getattr(optim, name)(pair.small, master_weights=True, **options)
    pair.masters.load_state_dict(strata.load(file))
    pair.check()
    for grads in steps[3:]:
        pair.step(grads)
        pair.check()


def test_state_of_another_kind():
    """The option of the constructor decides; state is converted."""
    p = strata.ones(3, dtype=strata.bfloat16, requires_grad=True)

    def made(master_weights):
        optimizer = optim.Adam([p], lr=0.1, master_weights=master_weights)
        p.grad = strata.ones_like(p)
        optimizer.step()
        return optimizer

    with_masters, without = made(True), made(False)
    saved = copy.deepcopy(with_masters.state_dict())
    with_masters.load_state_dict(without.state_dict())
    assert with_masters.param_groups[0]["master_weights"] and "master_param" not in with_masters.state[p]
    assert with_masters.state[p]["exp_avg"].dtype == strata.float32
    with_masters.step()
    assert with_masters.state[p]["master_param"].dtype == strata.float32
    without.load_state_dict(saved)
    assert "master_weights" not in without.param_groups[0]
    assert without.state[p]["exp_avg"].dtype == strata.bfloat16
    without.step()


def test_other_dtypes_have_no_copies():
    params = [strata.ones(2, dtype=d, requires_grad=True) for d in (strata.float32, strata.float64, strata.float16)]
    optimizer = optim.AdamW(params, lr=0.1, master_weights=True)
    for p in params:
        p.grad = strata.ones_like(p)
    optimizer.step()
    assert ["master_param" in optimizer.state[p] for p in params] == [False, False, True]


def test_groups_and_failures():
    a, b = (strata.ones(2, dtype=strata.float16, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([{"params": [a], "master_weights": True}, {"params": [b]}], lr=0.1)
    for p in (a, b):
        p.grad = strata.ones_like(p)
    optimizer.step()
    assert "master_param" in optimizer.state[a] and "master_param" not in optimizer.state.get(b, {})
    with pytest.raises(TypeError, match="unexpected keyword argument 'master_weight'"):
        optim.SGD([a], master_weight=True)
    fresh = optim.Adam([a, strata.ones(2, dtype=strata.int64)], master_weights=True)
    fresh.param_groups[0]["params"][1].grad = strata.ones(2, dtype=strata.int64)
    with pytest.raises(TypeError, match="floating dtype"):
        fresh.step()
    assert not fresh.state.get(a)  # a step that fails keeps nothing


def test_with_a_scaler_and_clipping():
    strata.manual_seed(0)
    net = strata.nn.Sequential(strata.nn.Linear(8, 16), strata.nn.Tanh(), strata.nn.Linear(16, 1)).to(strata.bfloat16)
    optimizer = optim.AdamW(net.parameters(), lr=0.01, master_weights=True)
    x = strata.randn(64, 8)
    y = x.sum(1, keepdim=True).tanh()
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (net(x.bfloat16()).float() - y).square().mean()
        loss.backward()
        strata.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10


def test_in_a_captured_graph():
    gpu = getattr(strata, DEVICE)
    p = strata.ones(3, dtype=strata.bfloat16, device=DEVICE, requires_grad=True)
    q = strata.ones(3, requires_grad=True)
    captured = optim.Adam([p], lr=0.1, master_weights=True, capturable=True)
    plain = optim.Adam([q], lr=0.1)
    p.grad, q.grad = strata.ones_like(p), strata.ones_like(q)
    new = optim.Adam([p], master_weights=True, capturable=True)
    with pytest.raises(RuntimeError, match="while a graph is captured"), gpu.graph(gpu.CUDAGraph()):
        new.step()
    captured.step()
    graph = gpu.CUDAGraph()
    with gpu.graph(graph):
        captured.step()
    for _ in range(3):
        graph.replay()
    for _ in range(4):
        plain.step()
    assert strata.equal(captured.state[p]["master_param"].cpu(), q.detach())
    assert strata.equal(p.detach().cpu(), q.detach().bfloat16())
