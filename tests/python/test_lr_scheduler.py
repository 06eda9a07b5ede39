"""Schedulers against closed forms written here; chaining, sequences, resuming, momentum, bad arguments."""

import copy
import math
import warnings

import numpy as np
import pytest
import strata
from strata import optim
from strata.optim import lr_scheduler as S

RATES = (0.5, 0.05)


def make(kind=optim.SGD, **options):
    params = [strata.ones(1, requires_grad=True) for _ in RATES]
    groups = [{"params": [p], "lr": lr} for p, lr in zip(params, RATES, strict=True)]
    return kind(groups, **({"momentum": 0.9} if kind is optim.SGD else {}), **options)


def run(schedule, epochs):
    """The rates of each epoch."""
    rows = [list(schedule.get_last_lr())]
    for _ in range(epochs - 1):
        schedule.optimizer.step()
        schedule.step()
        rows.append(list(schedule.get_last_lr()))
        assert rows[-1] == [g["lr"] for g in schedule.optimizer.param_groups]
    return np.array(rows)


def restarts(e, first, growth):
    """Position in its cycle, and the cycle's length."""
    length = first
    while e >= length:
        e, length = e - length, length * growth
    return e, length


CLOSED = {  # name: (arguments, factor of the initial rate at an epoch)
    "StepLR": ({"step_size": 3, "gamma": 0.5}, lambda e: 0.5 ** (e // 3)),
    "MultiStepLR": ({"milestones": [9, 2, 5, 5], "gamma": 0.5}, lambda e: 0.5 ** sum(e >= m for m in (2, 5, 5, 9))),
    "ConstantLR": ({"factor": 0.25, "total_iters": 4}, lambda e: 0.25 if e < 4 else 1),
    "LinearLR": (
        {"start_factor": 0.1, "end_factor": 0.9, "total_iters": 6},
        lambda e: 0.1 + 0.8 * min(e, 6) / 6,
    ),
    "ExponentialLR": ({"gamma": 0.9}, lambda e: 0.9**e),
    "CosineAnnealingLR": ({"T_max": 5}, lambda e: (1 + math.cos(math.pi * e / 5)) / 2),
    "CosineAnnealingWarmRestarts": (
        {"T_0": 3, "T_mult": 2},
        lambda e: (1 + math.cos(math.pi * restarts(e, 3, 2)[0] / restarts(e, 3, 2)[1])) / 2,
    ),
    "PolynomialLR": ({"total_iters": 7, "power": 2.0}, lambda e: (1 - min(e, 7) / 7) ** 2),
    "LambdaLR": ({"lr_lambda": lambda e: 1 / (1 + e)}, lambda e: 1 / (1 + e)),
    "MultiplicativeLR": ({"lr_lambda": lambda e: 0.9}, lambda e: 0.9**e),
}


@pytest.mark.parametrize("name", CLOSED)
def test_rates_are_the_closed_form(name):
    options, factor = CLOSED[name]
    rates = run(getattr(S, name)(make(), **options), 30)
    np.testing.assert_allclose(rates, [[lr * factor(e) for lr in RATES] for e in range(30)], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", [n for n in CLOSED if n not in ("LambdaLR", "MultiplicativeLR")])
def test_closed_form_is_the_chainable_form(name):
    options, factor = CLOSED[name]
    schedule = getattr(S, name)(make(), **options)
    for epoch in range(20):
        schedule.last_epoch = epoch
        np.testing.assert_allclose(
            schedule._get_closed_form_lr(), [lr * factor(epoch) for lr in RATES], rtol=1e-10, atol=1e-14
        )


def test_options_are_attributes_and_state():
    for name, (options, _) in CLOSED.items():
        schedule = getattr(S, name)(make(), **options)
        for option, value in options.items():
            if option not in ("lr_lambda", "milestones"):
                assert getattr(schedule, option) == value and schedule.state_dict()[option] == value
    assert S.MultiStepLR(make(), [9, 2, 5, 5]).milestones == {2: 1, 5: 2, 9: 1}  # a Counter, as in PyTorch


def test_cosine_with_a_floor():
    rates = run(S.CosineAnnealingLR(make(), T_max=5, eta_min=0.01), 25)
    want = [[0.01 + (lr - 0.01) * (1 + math.cos(math.pi * e / 5)) / 2 for lr in RATES] for e in range(25)]
    np.testing.assert_allclose(rates, want, rtol=1e-9)


def test_warm_restarts_take_parts_of_epochs():
    schedule = S.CosineAnnealingWarmRestarts(make(), T_0=4)
    schedule.optimizer.step()
    for epoch, factor in ((0.0, 1), (1.0, (1 + math.cos(math.pi / 4)) / 2), (2.0, 0.5), (6.0, 0.5), (4.0, 1)):
        schedule.step(epoch)
        np.testing.assert_allclose(schedule.get_last_lr(), [lr * factor for lr in RATES])
    schedule.step(2.5)
    assert schedule.last_epoch == 2
    with pytest.raises(ValueError, match="non-negative epoch"):
        schedule.step(-1)


def anneal(a, b, part, linear):
    return a + (b - a) * part if linear else b + (a - b) * (1 + math.cos(math.pi * part)) / 2


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam], ids=["momentum", "betas"])
@pytest.mark.parametrize("linear", [False, True], ids=["cos", "linear"])
def test_one_cycle(kind, linear):
    optimizer = make(kind)
    schedule = S.OneCycleLR(optimizer, max_lr=[0.7, 0.2], total_steps=21, anneal_strategy="linear" if linear else "cos")
    for step in range(21):
        rise = 0.3 * 21 - 1
        part = step / rise if step <= rise else (step - rise) / (20 - rise)
        for group, top in zip(optimizer.param_groups, (0.7, 0.2), strict=True):
            ends = (top / 25, top) if step <= rise else (top, top / 25 / 1e4)
            assert group["lr"] == pytest.approx(anneal(*ends, part, linear), rel=1e-12)
            ends = (0.95, 0.85) if step <= rise else (0.85, 0.95)
            momentum = group["betas"][0] if kind is optim.Adam else group["momentum"]
            assert momentum == pytest.approx(anneal(*ends, part, linear), rel=1e-12)
        optimizer.step()
        schedule.step()
    with pytest.raises(ValueError, match="Tried to step 22 times"):
        schedule.step()


def test_one_cycle_in_three_phases():
    rates = run(S.OneCycleLR(make(), max_lr=0.5, total_steps=20, pct_start=0.25, three_phase=True), 20)[:, 0]
    assert rates[0] == pytest.approx(0.02) and rates[4] == pytest.approx(0.5) and rates[8] == pytest.approx(0.02)
    assert rates[-1] == pytest.approx(0.02 / 1e4)
    by_epochs = run(S.OneCycleLR(make(), max_lr=0.5, epochs=4, steps_per_epoch=5, pct_start=0.25, three_phase=True), 20)
    np.testing.assert_array_equal(by_epochs[:, 0], rates)


@pytest.mark.parametrize(
    "options, height",
    [
        ({}, lambda e, cycle: 1),
        ({"mode": "triangular2"}, lambda e, cycle: 0.5**cycle),
        ({"mode": "exp_range", "gamma": 0.97}, lambda e, cycle: 0.97**e),
        ({"scale_fn": lambda x: 1 / x}, lambda e, cycle: 1 / (cycle + 1)),
        ({"scale_fn": lambda x: 1 / (1 + x), "scale_mode": "iterations"}, lambda e, cycle: 1 / (1 + e)),
    ],
)
def test_cyclic(options, height):
    optimizer = make()
    schedule = S.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, step_size_up=4, step_size_down=6, **options)
    for e in range(35):
        cycle, at = divmod(e, 10)
        share = (at / 4 if at <= 4 else (10 - at) / 6) * height(e, cycle)
        assert optimizer.param_groups[1]["lr"] == pytest.approx(0.1 + 0.4 * share, rel=1e-9)
        assert optimizer.param_groups[1]["momentum"] == pytest.approx(0.9 - 0.1 * share, rel=1e-9)
        optimizer.step()
        schedule.step()


def test_plateau_lowers_the_rate():
    optimizer = make()
    schedule = S.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=[0.2, 0])
    seen = []
    for loss in (1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5):
        schedule.step(strata.tensor(float(loss)))
        seen.append(schedule.get_last_lr())
    first = [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2]
    np.testing.assert_allclose([s[0] for s in seen], first)
    assert seen[-1][1] == pytest.approx(0.05 * 0.5**3)
    best = S.ReduceLROnPlateau(make(), mode="max", threshold=0.1, threshold_mode="abs", patience=0)
    for accuracy, bad in ((0.5, 0), (0.7, 0), (0.75, 0)):
        best.step(accuracy)
        assert best.num_bad_epochs == bad
    assert best.best == 0.7 and best.get_last_lr()[0] == pytest.approx(0.05)


# --- schedulers of schedulers ------------------------------------------------------------------------------------------


def test_chained_schedules_multiply():
    optimizer = make()
    parts = [S.ConstantLR(optimizer, 0.1, 5), S.ExponentialLR(optimizer, 0.9), S.StepLR(optimizer, 4, 0.5)]
    rates = run(S.ChainedScheduler(parts), 15)
    factor = [(0.1 if e < 5 else 1) * 0.9**e * 0.5 ** (e // 4) for e in range(15)]
    np.testing.assert_allclose(rates, np.outer(factor, RATES), rtol=1e-10)


def sequence():
    optimizer = make()
    parts = [S.LinearLR(optimizer, 0.1, 1.0, 4), S.CosineAnnealingLR(optimizer, 10), S.ExponentialLR(optimizer, 0.5)]
    return S.SequentialLR(optimizer, parts, [4, 12])


def test_sequence_begins_each_schedule_at_its_zero():
    def factor(e):
        if e < 4:
            return 0.1 + 0.9 * e / 4
        return (1 + math.cos(math.pi * (e - 4) / 10)) / 2 if e < 12 else 0.5 ** (e - 12)

    np.testing.assert_allclose(run(sequence(), 18), np.outer([factor(e) for e in range(18)], RATES), rtol=1e-10)


def test_sequence_inside_a_sequence():
    optimizer = make()
    inner = S.SequentialLR(optimizer, [S.ConstantLR(optimizer, 0.5, 99), S.ExponentialLR(optimizer, 0.5)], [2])
    chain = S.ChainedScheduler([S.ConstantLR(optimizer, 0.2, 3)])
    rates = run(S.SequentialLR(optimizer, [inner, chain], [5]), 10)[:, 0]
    np.testing.assert_allclose(rates, np.array([0.5, 0.5, 1, 0.5, 0.25, 0.2, 0.2, 0.2, 1, 1]) * 0.5)


# --- state -------------------------------------------------------------------------------------------------------------

MAKERS = {
    **{n: (lambda o, n=n: getattr(S, n)(o, **CLOSED[n][0])) for n in CLOSED},
    "OneCycleLR": lambda o: S.OneCycleLR(o, max_lr=0.7, total_steps=40),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.1, 0.5, step_size_up=4, mode="triangular2"),
    "SequentialLR": lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 9), S.ExponentialLR(o, 0.9)], [8]),
    "ChainedScheduler": lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 9), S.ExponentialLR(o, 0.9)]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_state_dict_resumes_bit_for_bit(name):
    whole = run(MAKERS[name](make()), 20)
    first = MAKERS[name](make())
    run(first, 7)
    saved = copy.deepcopy((first.optimizer.state_dict(), first.state_dict()))
    second = MAKERS[name](make())
    second.optimizer.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    np.testing.assert_array_equal(run(second, 14), whole[6:])
    assert "optimizer" not in saved[1]


@pytest.mark.parametrize("name", ["StepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "MultiStepLR"])
def test_last_epoch_goes_on_where_the_optimizer_was_saved(name):
    options, factor = CLOSED[name]
    first = getattr(S, name)(make(), **options)
    run(first, 8)  # epochs 0 to 7
    optimizer = make()
    optimizer.load_state_dict(first.optimizer.state_dict())
    second = getattr(S, name)(optimizer, **options, last_epoch=6)
    assert second.last_epoch == 7
    optimizer.step()
    second.step()
    np.testing.assert_allclose(second.get_last_lr(), [lr * factor(8) for lr in RATES], rtol=1e-10)


def test_plateau_state_goes_on():
    first = S.ReduceLROnPlateau(make(), patience=2)
    for _ in range(3):
        first.step(1.0)
    second = S.ReduceLROnPlateau(make(), patience=2)
    second.load_state_dict(first.state_dict())
    second.step(1.0)
    assert second.get_last_lr()[0] == pytest.approx(0.05)


def test_callable_objects_are_saved():
    class Decay:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, epoch):
            return self.rate**epoch

    saved = S.LambdaLR(make(), Decay(0.5)).state_dict()
    other = S.LambdaLR(make(), Decay(0.9))
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].rate == 0.5


# --- the rest ----------------------------------------------------------------------------------------------------------


def test_learning_rate_tensor_is_filled():
    rate = strata.tensor(0.5)
    optimizer = optim.SGD([strata.ones(1, requires_grad=True)], lr=rate)
    schedule = S.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    schedule.step()
    assert rate.item() == 0.25 and schedule.get_last_lr()[0].item() == 0.25


def test_schedule_of_ones_own():
    class Half(S.LRScheduler):
        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    np.testing.assert_allclose(run(Half(make()), 3)[:, 0], [0.5, 0.25, 0.125])


def test_schedule_derived_from_one_of_ours():
    class Mine(S.StepLR):
        pass

    np.testing.assert_allclose(run(Mine(make(), 1, 0.5), 3)[:, 0], [0.5, 0.25, 0.125])


def test_wrong_order_warns_once():
    optimizer = make()
    schedule = S.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before optimizer.step"):
        schedule.step()
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


@pytest.mark.parametrize(
    "make_schedule, error, message",
    [
        (lambda o: S.StepLR(None, 3), TypeError, "NoneType is not an Optimizer"),
        (lambda o: S.StepLR(o, 0), ValueError, "positive step_size"),
        (lambda o: S.StepLR(o, 3, last_epoch=4), KeyError, "initial_lr"),
        (lambda o: S.ConstantLR(o, 1.5), ValueError, "between 0 and 1"),
        (lambda o: S.LinearLR(o, 0), ValueError, "greater than 0"),
        (lambda o: S.LinearLR(o, 0.5, 2), ValueError, "between 0 and 1"),
        (lambda o: S.CosineAnnealingLR(o, 0), ValueError, "T_max"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 5, 0), ValueError, "T_mult >= 1"),
        (lambda o: S.PolynomialLR(o, -1), ValueError, "total_iters"),
        (lambda o: S.ExponentialLR(o, math.nan), ValueError, "a number gamma"),
        (lambda o: S.LambdaLR(o, [lambda e: 1]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda o: S.LambdaLR(o, 3), TypeError, "should be a function"),
        (lambda o: S.OneCycleLR(o, 0.1), ValueError, "either total_steps OR"),
        (lambda o: S.OneCycleLR(o, 0.1, total_steps=0), ValueError, "total_steps"),
        (lambda o: S.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=2), ValueError, "epochs"),
        (lambda o: S.OneCycleLR(o, 0.1, total_steps=5, pct_start=2), ValueError, "pct_start"),
        (lambda o: S.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="exp"), ValueError, "'cos' or 'linear'"),
        (lambda o: S.OneCycleLR(o, [0.1], total_steps=5), ValueError, "max_lr has 1 values"),
        (lambda o: S.OneCycleLR(make(optim.Adagrad), 0.1, total_steps=5), ValueError, "momentum or beta1"),
        (lambda o: S.CyclicLR(o, 0.1, 0.5, mode="square"), ValueError, "mode is invalid"),
        (lambda o: S.CyclicLR(o, 0.1, 0.5, step_size_up=0), ValueError, "step_size_up"),
        (lambda o: S.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0"),
        (lambda o: S.ReduceLROnPlateau(o, mode="up"), ValueError, "mode up is unknown"),
        (lambda o: S.ReduceLROnPlateau(o, min_lr=[0.1]), ValueError, "expected 2 min_lrs"),
        (lambda o: S.SequentialLR(o, [], []), ValueError, "at least one scheduler"),
        (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [1]), ValueError, "one more than"),
        (lambda o: S.SequentialLR(o, [S.StepLR(make(), 1)], []), ValueError, "same optimizer"),
        (lambda o: S.ChainedScheduler([S.ReduceLROnPlateau(o)]), ValueError, "does not support ReduceLROnPlateau"),
        (lambda o: S.ChainedScheduler([]), ValueError, "at least one scheduler"),
    ],
)
def test_bad_arguments_are_named(make_schedule, error, message):
    with pytest.raises(error, match=message):
        make_schedule(make())


@pytest.mark.parametrize(
    "make",
    [lambda o: S.StepLR(o, 1, gamma=0.5), lambda o: S.ExponentialLR(o, 0.5), lambda o: S.CosineAnnealingLR(o, 2)],
)
def test_groups_may_be_added_after_the_schedule_was_made(make):
    optimizer = optim.SGD([strata.ones(1, requires_grad=True)], lr=1.0)
    schedule = make(optimizer)
    optimizer.add_param_group({"params": [strata.ones(1, requires_grad=True)], "lr": 0.2})
    optimizer.step()
    schedule.step()
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([0.5, 0.1])
