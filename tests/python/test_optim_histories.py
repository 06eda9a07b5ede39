"""Optimizers over random histories, compared with formulas: gradients that appear late, vanish and return, new groups, resumed state."""

import copy

import numpy as np
import optimizer_formulas
import pytest
import strata
from optimizer_formulas import CASES
from optimizer_runs import parameter
from strata import optim

SHAPES = [(3,), (), (2, 3), (1, 2), (4,)]


class Twin:
    """An optimizer and the same parameters in NumPy."""

    def __init__(self, name, options, seed):
        self.rng = np.random.default_rng(seed)
        self.name, self.options, self.lr = name, options, options["lr"]
        self.values = [self.rng.standard_normal(s) for s in SHAPES]
        self.params = [parameter(v, strata.float64) for v in self.values]
        self.states, self.counts = [{} for _ in SHAPES], [0] * len(SHAPES)
        self.used = 3
        self.optimizer = self.make(self.params[:3])

    def make(self, params):
        return getattr(optim, self.name)(params, **self.options)

    def step(self):
        for p in self.params[: self.used]:
            chance = self.rng.random()
            if chance < 0.5:
                g = self.rng.standard_normal(tuple(p.shape))
                p.grad = strata.tensor(g.tolist(), dtype=p.dtype).reshape(g.shape)
            elif chance < 0.75:
                p.grad = None
        for i, p in enumerate(self.params[: self.used]):
            if p.grad is not None:
                self.counts[i] += 1
                rule = getattr(optimizer_formulas, self.name)
                options = self.options | {"lr": self.lr}
                self.values[i] = rule(self.values[i], p.grad.numpy(), self.states[i], self.counts[i], **options)
        self.optimizer.step()

    def add_group(self):
        if self.used < len(self.params):
            self.optimizer.add_param_group({"params": [self.params[self.used]], "lr": self.lr})
            self.used += 1

    def resume(self):
        saved, groups = copy.deepcopy(self.optimizer.state_dict()), self.optimizer.param_groups
        self.optimizer = self.make(groups[0]["params"])
        for group in groups[1:]:
            self.optimizer.add_param_group({"params": group["params"]})
        self.optimizer.load_state_dict(saved)

    def change_rate(self):
        self.lr *= 0.5
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr

    def run(self):
        others = [self.add_group, self.resume]
        if self.name not in ("ASGD", "Rprop"):  # these keep rates of their own
            others.append(self.change_rate)
        others += [lambda: self.optimizer.zero_grad(set_to_none=True), lambda: self.optimizer.zero_grad(False)]
        for _ in range(12):
            if self.rng.random() < 0.35:
                self.rng.choice(others)()
            self.step()
            for p, want in zip(self.params, self.values, strict=True):
                np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name, options", CASES, ids=[f"{name}-{'-'.join(options)}" for name, options in CASES])
def test_any_history_follows_the_formula(name, options, seed):
    Twin(name, options, seed).run()


def test_a_late_parameter_steps_once():
    early, late = parameter([0.0]), parameter([0.0])
    optimizer = optim.SGD([early, late], lr=1.0, momentum=0.5)
    early.grad = strata.ones(1)
    optimizer.step()
    assert set(optimizer.state) == {early}
    late.grad = strata.ones(1)
    optimizer.step()
    assert late.tolist() == [-1.0] and early.tolist() == [-2.5]


def test_plain_sgd_keeps_no_state():
    p = parameter([1.0])
    optimizer = optim.SGD([p], lr=0.5)
    p.grad = strata.ones(1)
    optimizer.step()
    assert not optimizer.state and optimizer.state_dict()["state"] == {}
