"""GradScaler: scaling, unscaling, skipped steps and the scale's rule, against formulas in Python; amp.report."""

import pickle

import numpy as np
import pytest
import strata
from strata import _C, amp, nn, optim


@pytest.fixture(params=["cpu", "vgpu"])
def device(request):
    return request.param


def scaler_on(device, **options):
    return amp.GradScaler(device, **options)


def parameter(values, device):
    return nn.Parameter(strata.tensor(values, device=device))


UNSCALE = _C.ops["_amp_foreach_non_finite_check_and_unscale_"]
UPDATE = _C.ops["_amp_update_scale_"]


@pytest.mark.parametrize("dtype", [strata.float64, strata.float32, strata.float16, strata.bfloat16])
@pytest.mark.parametrize("bad", [None, float("inf"), float("-inf"), float("nan")])
def test_unscaling_checks_every_element(device, dtype, bad):
    rng = np.random.default_rng(0)
    shapes = [(0,), (1,), (3, 5), (20000,), (7, 4)]
    values = [strata.tensor(rng.standard_normal(s)).to(dtype) for s in shapes]
    if bad is not None:
        values[3][19999] = bad
    want = [(v.double() * 0.25).to(dtype) for v in values]
    grads = [v.to(device) for v in values]
    grads[-1] = strata.zeros(4, 14, device=device, dtype=dtype).T[::2]  # with gaps
    grads[-1].copy_(values[-1].to(device))
    found = strata.zeros((), device=device)
    versions = [g._version for g in grads]
    UNSCALE(grads, found, strata.tensor(0.25, device=device))
    assert found.item() == (bad is not None)
    for g, w in zip(grads, want, strict=True):
        np.testing.assert_array_equal(g.cpu().double().numpy(), w.double().numpy())
    assert all(g._version > v for g, v in zip(grads, versions, strict=True))


def test_unscaling_does_not_clear_what_was_found(device):
    found = strata.ones((), device=device)
    UNSCALE([strata.ones(3, device=device)], found, strata.ones((), device=device))
    assert found.item() == 1
    UNSCALE([], found, strata.ones((), device=device))


def test_unscaling_refuses_other_tensors(device):
    one = strata.ones((), device=device)
    with pytest.raises(RuntimeError, match="floating dtype"):
        UNSCALE([strata.ones(3, device=device).long()], one.clone(), one)
    with pytest.raises(RuntimeError, match="must be one number"):
        UNSCALE([one.clone()], strata.ones(2, device=device), one)


def test_the_scale_follows_the_rule(device):
    rng = np.random.default_rng(1)
    scale, tracker = strata.full((), 8.0, device=device), strata.zeros((), dtype=strata.int32, device=device)
    want, steps = 8.0, 0
    for found in rng.integers(0, 4, 60) == 0:
        UPDATE(scale, tracker, strata.tensor(float(found), device=device), 2.0, 0.5, 3)
        if found:
            want, steps = want * 0.5, 0
        else:
            steps += 1
            if steps == 3:
                want, steps = want * 2, 0
        assert (scale.item(), tracker.item()) == (want, steps)
    largest = strata.full((), 3e38, device=device)
    UPDATE(largest, tracker.zero_(), strata.zeros((), device=device), 2.0, 0.5, 1)
    assert largest.item() == np.float32(3e38)  # a scale that would be infinite does not grow


OPTIMIZERS = [
    optim.SGD, optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta,
    optim.RMSprop, optim.ASGD, optim.Rprop,
]  # fmt: skip


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda c: c.__name__)
def test_a_step_is_that_of_unscaled_gradients(device, kind):
    weights = []
    for scaled in (False, True):
        w, unused = parameter([1.0, 2.0], device), parameter([5.0], device)
        optimizer = kind([w, unused], lr=0.1)
        scaler = scaler_on(device, enabled=scaled, init_scale=1024.0)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((w * w).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        weights.append(w.tolist())
        assert unused.tolist() == [5.0] and unused.grad is None
    assert weights[0] == weights[1] != [1.0, 2.0]


def test_infinite_gradients_skip_the_step_and_lower_the_scale(device):
    w = parameter([1.0], device)
    optimizer = optim.SGD([w], lr=1.0)
    scaler = scaler_on(device, init_scale=4.0, growth_interval=2)
    scaler.scale((w * float("inf")).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert w.tolist() == [1.0] and scaler.get_scale() == 2.0
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert w.tolist() == [-1.0] and scaler.get_scale() == 4.0


def test_several_optimizers_and_clipping(device):
    a, b = parameter([1.0], device), parameter([1.0], device)
    first, second = optim.SGD([a], lr=1.0), optim.SGD([b], lr=1.0)
    scaler = scaler_on(device, init_scale=8.0)
    loss = scaler.scale([(a * 3).sum(), (b * float("nan")).sum()])
    assert isinstance(loss, list)
    for part in loss:
        part.backward()
    scaler.unscale_(first)
    assert a.grad.tolist() == [3.0]
    nn.utils.clip_grad_norm_([a], 1.0)
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert abs(a.item()) < 1e-5 and b.item() == 1.0 and scaler.get_scale() == 4.0  # one of them found a NaN


def test_misuse_has_pytorchs_errors(device):
    w = parameter([1.0], device)
    optimizer = optim.SGD([w], lr=1.0)
    scaler = scaler_on(device)
    for call in (lambda: scaler.unscale_(optimizer), lambda: scaler.step(optimizer), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            call()
    loss = scaler.scale(w.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.step(optimizer)
    scaler = scaler_on(device)
    loss = scaler.scale(w.sum())
    loss.backward()
    with pytest.raises(AssertionError, match="prior to update"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(optimizer, closure=lambda: loss)
    with pytest.raises(AssertionError, match="only be pickled"):
        pickle.dumps(scaler)
    with pytest.raises(ValueError, match="iterable of Tensors"):
        scaler.scale(3)
    low = parameter([1.0], device).half().detach().requires_grad_()
    low.sum().backward()
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(optim.SGD([low], lr=1.0))
    for wrong in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(AssertionError, match="factor must be"):
            scaler_on(device, **wrong)


def test_state_travels(device):
    w = parameter([1.0], device)
    scaler = scaler_on(device, init_scale=16.0, growth_interval=5)
    scaler.scale(w.sum()).backward()
    scaler.step(optim.SGD([w], lr=1.0))
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 16.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5, "_growth_tracker": 1,
    }  # fmt: skip
    other = scaler_on(device)
    other.load_state_dict(state)
    assert other.state_dict() == state
    other.scale(w.sum())
    other.load_state_dict({**state, "scale": 2.0})
    assert other.get_scale() == 2.0
    copy = pickle.loads(pickle.dumps(scaler))
    assert copy.state_dict() == state
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    with pytest.raises(KeyError, match="growth_factor"):
        other.load_state_dict({"scale": 1.0})


def test_update_takes_a_new_scale(device):
    scaler = scaler_on(device)
    scaler.scale(strata.ones((), device=device))
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0
    scaler.update(strata.tensor([64.0], device=device))
    assert scaler.get_scale() == 64.0
    with pytest.raises(AssertionError, match="new_scale"):
        scaler.update(strata.ones(2, device=device))


def test_a_disabled_scaler_does_nothing():
    scaler = amp.GradScaler("cpu", enabled=False)
    w = parameter([1.0], "cpu")
    loss = w.sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and not scaler.is_enabled()
    loss.backward()
    optimizer = optim.SGD([w], lr=1.0)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0] and scaler.state_dict() == {}
    if not strata.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not amp.GradScaler().is_enabled()


def test_options_can_be_changed():
    scaler = amp.GradScaler("cpu")
    for name, value in (("growth_factor", 3.0), ("backoff_factor", 0.25), ("growth_interval", 7)):
        getattr(scaler, f"set_{name}")(value)
        assert getattr(scaler, f"get_{name}")() == value


def test_float16_training_needs_and_gets_the_scale(device):
    """A gradient of 1e-8 is 0 in float16; with a scale it arrives."""
    results = []
    for scale in (1.0, 65536.0):
        w = parameter([[1.0]], device)
        scaler = scaler_on(device, init_scale=scale)
        with strata.autocast(device, dtype=strata.float16):
            out = strata.mm(strata.ones(1, 1, device=device), w)
        scaler.scale(out.float().sum() * 1e-8).backward()
        scaler.unscale_(optim.SGD([w], lr=1.0))
        results.append(w.grad.item())
    assert results[0] == 0 and abs(results[1] - 1e-8) < 1e-11


def test_the_report_names_the_worst_layer(device):
    strata.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.norm = nn.BatchNorm1d(8)
            self.drop = nn.Dropout(0.5)
            self.big = nn.Linear(8, 8)

        def forward(self, x):
            return self.big(self.drop(self.norm(self.first(x))))

    net = Net().to(device)
    with strata.no_grad():
        net.big.weight.fill_(3e4)
        net.big.weight[0, 0] = -6e4
    x = strata.randn(16, 8, device=device)
    mean, generator = net.norm.running_mean.clone(), strata.get_rng_state()
    report = amp.report(net, x, dtype=strata.float16)
    assert [r.name for r in report.rows] == ["first", "norm", "drop", "big"]
    assert [r.module for r in report.rows] == ["Linear", "BatchNorm1d", "Dropout", "Linear"]
    assert report.worst.name == "big" and not np.isfinite(report.worst.error)  # overflows
    assert report.rows[0].dtype is strata.float16 and 0 < report.rows[0].error < 2e-3
    assert report.rows[2].error == 0 and 0 < report.rows[2].accumulated < 1e-2
    text = str(report)
    assert text.splitlines()[0].split() == ["layer", "module", "dtype", "error", "accumulated"]
    assert text.splitlines()[-1].startswith("worst: big (Linear)")
    assert (net.norm.running_mean == mean).all() and (strata.get_rng_state() == generator).all()
    assert not net.first._forward_hooks


def test_the_report_takes_batches_of_every_kind():
    pair = nn.Bilinear(3, 3, 2)
    x = strata.randn(4, 3)
    for batch in ((x, x), [x, x], {"input1": x, "input2": x}):
        (row,) = amp.report(pair, batch).rows
        assert row.name == "(model)" and row.error < 2e-2
    shared = nn.Linear(3, 3)
    assert len(amp.report(nn.Sequential(shared, nn.ReLU(), shared), x).rows) == 3
    with pytest.raises(ValueError, match="no layer"):
        amp.report(nn.Flatten(), strata.ones(2, 2).long())
