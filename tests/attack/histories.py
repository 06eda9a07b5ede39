"""Compares optimizers and schedulers over random histories with PyTorch: gradients that come late, go and return, groups that are added, states that are saved
and loaded in the middle.

    python tests/attack/histories.py [--histories 300] [--seed 1] [--history N]

Needs PyTorch. A history is a list of steps as text; both modules run it and every parameter and learning rate is compared after each step."""

import argparse
import copy
import pathlib
import random
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np
import strata

# Constructor arguments: each is given with a chance of its own.
OPTIMIZERS = {
    "SGD": {"momentum": (0.9,), "dampening": (0.1,), "nesterov": (True,), "weight_decay": (0.1,), "maximize": (True,)},
    "Adam": {"betas": ((0.8, 0.99),), "eps": (1e-6,), "weight_decay": (0.1,), "amsgrad": (True,), "maximize": (True,)},
    "AdamW": {"betas": ((0.8, 0.99),), "weight_decay": (0.1,), "amsgrad": (True,), "maximize": (True,)},
    "NAdam": {
        "weight_decay": (0.1,),
        "momentum_decay": (0.01,),
        "decoupled_weight_decay": (True,),
        "maximize": (True,),
    },
    "RAdam": {"weight_decay": (0.1,), "decoupled_weight_decay": (True,), "maximize": (True,)},
    "Adamax": {"weight_decay": (0.1,), "maximize": (True,)},
    "Adagrad": {"lr_decay": (0.1,), "weight_decay": (0.1,), "initial_accumulator_value": (0.5,), "maximize": (True,)},
    "Adadelta": {"rho": (0.8,), "weight_decay": (0.1,), "maximize": (True,)},
    "RMSprop": {"alpha": (0.9,), "momentum": (0.9,), "centered": (True,), "weight_decay": (0.1,), "maximize": (True,)},
    "ASGD": {"lambd": (0.1,), "alpha": (0.5,), "t0": (2,), "weight_decay": (0.1,), "maximize": (True,)},
    "Rprop": {"etas": ((0.4, 1.3),), "step_sizes": ((1e-5, 10),), "maximize": (True,)},
}
SCHEDULERS = {
    "StepLR": {"step_size": (1, 2, 3), "gamma": (0.5,)},
    "MultiStepLR": {"milestones": ([1, 3], [2, 2, 4]), "gamma": (0.5,)},
    "ConstantLR": {"factor": (0.5,), "total_iters": (0, 3)},
    "LinearLR": {"start_factor": (0.25,), "end_factor": (0.9,), "total_iters": (1, 4)},
    "ExponentialLR": {"gamma": (0.9,)},
    "CosineAnnealingLR": {"T_max": (1, 4), "eta_min": (0.01,)},
    "CosineAnnealingWarmRestarts": {"T_0": (1, 3), "T_mult": (1, 2)},
    "PolynomialLR": {"total_iters": (2, 5), "power": (2.0,)},
    "CyclicLR": {
        "base_lr": (0.01,),
        "max_lr": (0.2,),
        "step_size_up": (2,),
        "cycle_momentum": (False,),
        "mode": ("triangular", "triangular2"),
    },
    "OneCycleLR": {"max_lr": (0.5,), "total_steps": (40,), "cycle_momentum": (False,)},
}
REQUIRED = {"StepLR": ["step_size"], "MultiStepLR": ["milestones"], "ExponentialLR": ["gamma"], "CosineAnnealingLR": ["T_max"],
            "CosineAnnealingWarmRestarts": ["T_0"], "CyclicLR": ["base_lr", "max_lr", "cycle_momentum"], "OneCycleLR": ["max_lr", "total_steps", "cycle_momentum"]}  # fmt: skip


class Side:
    """One module's parameters, optimizer and scheduler."""

    def __init__(self, module, start, dtype, name, options, schedule):
        self.module, self.dtype = module, getattr(module, dtype)
        self.params = [self.tensor(values).requires_grad_() for values in start]
        groups = (
            [{"params": self.params[:2]}, {"params": self.params[2:], "lr": 0.05}] if len(start) > 2 else self.params
        )
        self.make = lambda: getattr(module.optim, name)(groups, lr=0.1, **options)
        self.optimizer = self.make()
        self.schedule = (
            getattr(module.optim.lr_scheduler, schedule[0])(self.optimizer, **schedule[1]) if schedule else None
        )

    def tensor(self, values):
        return self.module.tensor(np.asarray(values).tolist(), dtype=self.dtype)

    def do(self, action, argument):
        if action == "grad":
            place, values = argument
            self.params[place].grad = None if values is None else self.tensor(values)
        elif action == "step":
            self.optimizer.step()
        elif action == "zero_grad":
            self.optimizer.zero_grad(set_to_none=argument)
        elif action == "schedule" and self.schedule:
            self.schedule.step()
        elif action == "add_group":
            self.params.append(self.tensor(argument).requires_grad_())
            self.optimizer.add_param_group({"params": [self.params[-1]]})
        elif action == "reload":
            state = copy.deepcopy(self.optimizer.state_dict())
            self.optimizer.load_state_dict(state)
        elif action == "lr":
            self.optimizer.param_groups[0]["lr"] = argument
        elif action == "data":
            place, values = argument
            with self.module.no_grad():
                self.params[place].copy_(self.tensor(values))

    def view(self):
        values = [p.detach().double().numpy().copy() for p in self.params]
        return values, [float(g["lr"]) for g in self.optimizer.param_groups]


def chosen(rng, table, required=()):
    return {k: rng.choice(v) for k, v in table.items() if k in required or rng.random() < 0.4}


def history(rng):
    """Parameters to start from, constructor arguments, and the steps."""
    name = rng.choice(list(OPTIMIZERS))
    options = chosen(rng, OPTIMIZERS[name])
    if options.get("nesterov"):
        options |= {"momentum": 0.9}
        options.pop("dampening", None)
    schedule = None
    if rng.random() < 0.5:
        kind = rng.choice(list(SCHEDULERS))
        schedule = (kind, chosen(rng, SCHEDULERS[kind], REQUIRED.get(kind, ())))
    numbers = np.random.default_rng(rng.randrange(2**32))
    start = [
        numbers.standard_normal(rng.choice(((), (3,), (2, 3), (0,), (1,)))) for _ in range(rng.choice((1, 2, 3, 4)))
    ]
    shapes = [s.shape for s in start]
    steps = []
    for _ in range(rng.randrange(5, 25)):
        kind = rng.random()
        place = rng.randrange(len(shapes))
        if kind < 0.4:
            steps.append(("grad", (place, None if rng.random() < 0.25 else numbers.standard_normal(shapes[place]))))
        elif kind < 0.7:
            steps.append(("step", None))
        elif kind < 0.76:
            steps.append(("zero_grad", rng.random() < 0.5))
        elif kind < 0.88:
            steps.append(("schedule", None))
        elif kind < 0.91:
            shapes.append((2,))
            steps.append(("add_group", numbers.standard_normal(2)))
        elif kind < 0.95:
            steps.append(("reload", None))
        elif kind < 0.97:
            steps.append(("lr", 0.02))
        else:
            steps.append(("data", (place, numbers.standard_normal(shapes[place]))))
    return name, options, schedule, start, steps, rng.choice(("float64", "float64", "float32"))


def run(seed, number, other, show=False):
    """The first step after which the two sides differ, as a text, or None."""
    rng = random.Random(f"{seed}:{number}")
    name, options, schedule, start, steps, dtype = history(rng)
    what = f"{name}({options}) with {schedule}, {dtype}"
    sides = []
    for module in (strata, other):
        try:
            sides.append(Side(module, start, dtype, name, options, schedule))
        except Exception as e:  # its kind is compared
            sides.append(type(e))
    if any(isinstance(s, type) for s in sides):
        return None if sides[0] == sides[1] else f"{what}: made {sides}"
    done = []
    for action, argument in steps:
        done.append(action if action != "grad" else f"grad{argument[0]}{'=None' if argument[1] is None else ''}")
        ended = []
        for side in sides:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    side.do(action, argument)
                ended.append(None)
            except Exception as e:  # its kind is compared
                ended.append(type(e))
        if show:
            print(done[-1], *(s.view() for s in sides), sep="\n    ")
        if action == "schedule" and ended == [None, ValueError] and "add_group" in done:
            return None  # PyTorch's cosine schedules refuse groups that were added later; ours begin with their rate at hand
        if ended[0] != ended[1]:
            return f"{what}: {done}: raised {ended}"
        if ended[0]:
            return None
        (a, rates), (b, other_rates) = (s.view() for s in sides)
        if not np.allclose(rates, other_rates, rtol=1e-9, atol=0):
            return f"{what}: {done}: learning rates {rates} beside {other_rates}"
        # PyTorch keeps eta of ASGD and mu_product of NAdam in float32 whatever the parameter's dtype is.
        tolerance = 2e-5 if dtype == "float32" else 1e-6 if name in ("ASGD", "NAdam") else 1e-9
        for x, y in zip(a, b, strict=True):
            if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
                return f"{what}: {done}: {x.tolist()} beside {y.tolist()}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--history", type=int, help="run this one alone and show it")
    options = parser.parse_args()
    import torch

    seed = str(random.SystemRandom().randrange(10**9)) if options.seed == "fresh" else options.seed
    if options.history is not None:
        print(run(seed, options.history, torch, show=True) or "the same")
        return 0
    found = [(n, text) for n in range(options.histories) if (text := run(seed, n, torch))]
    for number, text in found:
        print(f"history {number}: {text}")
    print(f"{options.histories} histories, seed {seed}: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
