"""Optimizers: parameter groups, hooks, closures, custom rules, and errors."""

import numpy as np
import pytest
import strata
from optimizer_runs import ALL, closure_of, parameter, take_steps
from strata import optim


def test_groups_have_options_of_their_own():
    p, q, r = (parameter([1.0]) for _ in range(3))
    optimizer = optim.SGD([{"params": [p]}, {"params": q, "lr": 0.5}], lr=0.25)
    optimizer.add_param_group({"params": [r], "lr": 0})
    take_steps(optimizer, [p, q, r], [[np.ones(1)] * 3])
    assert [t.item() for t in (p, q, r)] == [0.75, 0.5, 1.0]
    assert "lr: 0.5" in repr(optimizer) and "Parameter Group 2" in repr(optimizer)


def test_named_parameters():
    p = parameter([1.0])
    optimizer = optim.SGD([("weight", p)], lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight"]
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [parameter([1.0])]})


def test_learning_rate_may_be_a_tensor():
    p = parameter([1.0])
    take_steps(optim.SGD([p], lr=strata.tensor(0.25)), [p], [[np.ones(1)]])
    assert p.item() == 0.75


def test_hooks_run_around_a_step_and_can_be_removed():
    p, seen = parameter([1.0]), []
    optimizer = optim.SGD([p], lr=0.1)
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", p.item())))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", p.item())))
    take_steps(optimizer, [p], [[np.full(1, 5.0)]])
    before.remove()
    optimizer.step()
    assert [when for when, _ in seen] == ["before", "after", "after"]
    assert seen[0][1] == 1.0 and seen[1][1] == 0.5


def test_closure_and_zero_grad():
    p = parameter([3.0])
    optimizer = optim.SGD([p], lr=0.25)
    with strata.no_grad():  # the closure has the tape on all the same
        loss = optimizer.step(closure_of(optimizer, lambda x: (x * x).sum(), p))
    assert loss.item() == 9 and p.item() == 1.5
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    optimizer.zero_grad()
    assert p.grad is None


def test_rule_of_ones_own():
    class SignDescent(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with strata.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p -= group["lr"] * p.grad.sign()

    p = parameter([1.0, -1.0])
    take_steps(SignDescent([p], 0.25), [p], [[np.array([3.0, -2.0])]])
    assert p.tolist() == [0.75, -0.75]


@pytest.mark.parametrize(
    "name, options, message",
    [
        *[(name, {"lr": -1.0}, f"{name}: invalid learning rate: -1") for name in ALL],
        ("Adam", {"lr": float("nan")}, "invalid learning rate: nan"),
        ("Adam", {"betas": (1.0, 0.9)}, "beta parameter at index 0: 1"),
        ("AdamW", {"betas": (0.9, -0.1)}, "beta parameter at index 1"),
        ("Adam", {"betas": (0.9,)}, "betas must be 2 numbers"),
        ("Adam", {"eps": -1}, "epsilon"),
        ("SGD", {"momentum": -0.1}, "momentum"),
        ("SGD", {"weight_decay": -0.1}, "weight_decay"),
        ("SGD", {"nesterov": True}, "Nesterov momentum requires"),
        ("NAdam", {"momentum_decay": -1}, "momentum_decay"),
        ("Adagrad", {"initial_accumulator_value": -1}, "initial_accumulator_value"),
        ("Adadelta", {"rho": 1.5}, "rho"),
        ("RMSprop", {"alpha": -1}, "alpha"),
        ("Rprop", {"etas": (0.5, 0.9)}, "eta value at index 1"),
    ],
)
def test_bad_options_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(optim, name)([parameter([1.0])], **options)


def test_bad_parameters_are_named():
    p = parameter([1.0])
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="got a Tensor"):
        optim.SGD(p)
    with pytest.raises(TypeError, match="params is int"):
        optim.SGD([1])
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([p * 2])
    with pytest.raises(ValueError, match="twice"):
        optim.SGD([p, p])
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}])
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        optim.Adam([p], speed=2)
    with pytest.raises(NotImplementedError, match="differentiable"):
        optim.Adam([p], differentiable=True)


def test_hooks_stay_when_their_handles_are_forgotten():
    p = strata.ones(2, requires_grad=True)
    optimizer, log = strata.optim.SGD([p], lr=0.1), []
    for i in range(5):  # a handle that nobody keeps is freed at once, and its address is used again
        optimizer.register_step_post_hook(lambda *_, i=i: log.append(i))
    optimizer.step()
    assert log == [0, 1, 2, 3, 4]


def test_options_of_the_wrong_type_are_named():
    p = strata.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="Adam: lr must be a number, found 'x'"):
        strata.optim.Adam([{"params": [p], "lr": "x"}])
    with pytest.raises(TypeError, match="SGD: lr must be a number, found None"):
        strata.optim.SGD([p], lr=None)
    with pytest.raises(ValueError, match="betas must be 2 numbers, found 0.9"):
        strata.optim.Adam([p], betas=0.9)
    with pytest.raises(KeyError, match="needs 'params', found only"):
        strata.optim.Adam([{"lr": 1.0}])
