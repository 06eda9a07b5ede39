"""Bases of the schedulers that also change the momentum, and of the one that depends on a metric. Their options, formulas and
checks are in records; see docs/internals/optim.md."""

import math

from strata import _C

from ._schedules import Recorded, _function_state, _rates, _set
from .optimizer import Optimizer


def _for_groups(name, optimizer, value):
    """A number for each group, from one for all or a list."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has {groups}."
        )
    return list(value)


class _Cycle(Recorded):
    """Rates and momenta of one formula. Groups hold the momentum bounds, as in PyTorch."""

    def _take(self, optimizer, last_epoch, options):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer, self.cycle_momentum = optimizer, options["cycle_momentum"]
        if not self.cycle_momentum:
            return
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        base = _for_groups("base_momentum", optimizer, options["base_momentum"])
        top = _for_groups("max_momentum", optimizer, options["max_momentum"])
        for group, low, high in zip(optimizer.param_groups, base, top, strict=True):
            if last_epoch == -1:
                group["base_momentum"], group["max_momentum"] = low, high

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _value(self, *given):
        return _C._scheduled_lr(self._schedule, (*self._numbers(), *given), self.last_epoch, 0.0, 0.0, False, True)


class OneCycle(_Cycle):
    """Base of OneCycleLR."""

    def __init__(self, optimizer, last_epoch, *, max_lr, total_steps, epochs, steps_per_epoch, **options):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if value <= 0 or not isinstance(value, int):
                    raise ValueError(f"Expected positive integer {name}, but got {value}")
            total_steps = epochs * steps_per_epoch
        self._check_choices(anneal_strategy=options["anneal_strategy"])
        self.total_steps = total_steps
        for name in self._names[1:]:
            setattr(self, name, options[name])
        self._check()
        self._take(optimizer, last_epoch, options)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, _for_groups("max_lr", optimizer, max_lr), strict=True):
                group["initial_lr"], group["max_lr"] = rate / options["div_factor"], rate
                group["min_lr"] = group["initial_lr"] / options["final_div_factor"]
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of this batch; sets the momenta too."""
        groups = self.optimizer.param_groups
        rates = [self._value(g["initial_lr"], g["max_lr"], g["min_lr"]) for g in groups]
        for g in groups if self.cycle_momentum else ():
            self._set_momentum(g, self._value(g["max_momentum"], g["base_momentum"], g["max_momentum"]))
        return rates


class Cyclic(_Cycle):
    """Base of CyclicLR."""

    def __init__(
        self, optimizer, last_epoch, *, base_lr, max_lr, step_size_up, step_size_down, mode, gamma, scale_fn, **options
    ):
        if mode not in self._choices["mode"] and scale_fn is None:
            raise ValueError(
                f"mode is invalid and scale_fn is None: got {mode!r}, choose one of {self._choices['mode']}"
            )
        self.step_size_up = step_size_up
        self.step_size_down = step_size_up if step_size_down is None else step_size_down
        self.mode, self.gamma, self._scale_fn_custom, self.scale_mode = mode, gamma, scale_fn, options["scale_mode"]
        self._check()
        self._take(optimizer, last_epoch, options)
        base_lrs = _for_groups("base_lr", optimizer, base_lr)
        self.max_lrs = _for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                _set(group, "lr", lr)
                group["initial_lr"] = lr
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _numbers(self):
        if self._scale_fn_custom is None:
            return super()._numbers()
        return [self.step_size_up, self.step_size_down, len(self._choices["mode"]), self.gamma]  # no mode: as scaled

    def _scale(self):
        """The height of this cycle by scale_fn; the formula has that of the modes."""
        if self._scale_fn_custom is None:
            return 1.0
        cycle = math.floor(1 + self.last_epoch / (self.step_size_up + self.step_size_down))
        return self._scale_fn_custom(cycle if self.scale_mode == "cycle" else self.last_epoch)

    def get_lr(self):
        """The rates of this batch; sets the momenta too."""
        scale = self._scale()
        for g in self.optimizer.param_groups if self.cycle_momentum else ():
            self._set_momentum(g, self._value(g["max_momentum"], g["base_momentum"], scale))
        return [self._value(low, high, scale) for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self):
        """Everything except the optimizer; of scale_fn, the attributes of a callable object."""
        function = self._scale_fn_custom
        return super().state_dict() | {"_scale_fn_custom": None if function is None else _function_state(function)}

    def load_state_dict(self, state_dict):
        """Restores the result of state_dict()."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])


class Plateau(Recorded):
    """Base of ReduceLROnPlateau. C++ has its own: a step changes counts and the best metric, not only a rate, so a shared
    formula would need more code in both languages than the step has."""

    def __init__(self, optimizer, *, min_lr, **options):
        vars(self).update(options)
        self._check()
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self._check_choices(mode=self.mode, threshold_mode=self.threshold_mode)
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != len(optimizer.param_groups):
            raise ValueError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}")
        self.optimizer, self.min_lr = optimizer, min_lr
        self.best = math.inf if self.mode == "min" else -math.inf
        self.last_epoch = self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = _rates(optimizer)

    def step(self, metrics, epoch=None):
        """Ends an epoch with this metric."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = _rates(self.optimizer)

    def _is_better(self, value):
        sign = -1 if self.mode == "min" else 1
        step = sign * self.threshold
        mark = self.best * (1 + step) if self.threshold_mode == "rel" else self.best + step
        return value < mark if self.mode == "min" else value > mark

    def _reduce(self):
        for group, least in zip(
            self.optimizer.param_groups, _for_groups("min_lr", self.optimizer, self.min_lr), strict=True
        ):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set(group, "lr", new)
