"""Schedules that also change the momentum, and the one that depends on a metric."""

import math

from strata import _C

from ._schedules import LRScheduler, _function_state, _rates, _set
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


class _Cycle(LRScheduler):
    """Rates and momenta of one formula. Groups hold the momentum bounds, as in PyTorch."""

    def _take(self, optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer, self.cycle_momentum = optimizer, cycle_momentum
        if not cycle_momentum:
            return
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        base = _for_groups("base_momentum", optimizer, base_momentum)
        top = _for_groups("max_momentum", optimizer, max_momentum)
        for group, low, high in zip(optimizer.param_groups, base, top, strict=True):
            if last_epoch == -1:
                group["base_momentum"], group["max_momentum"] = low, high

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _value(self, formula, *numbers):
        return _C._scheduled_lr(formula, numbers, self.last_epoch, 0.0, 0.0, False, True)


class OneCycleLR(_Cycle):
    """Up to max_lr and down again, once in total_steps batches; momentum in the opposite direction.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5, momentum=0.9)
    >>> schedule = strata.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=100)
    >>> schedule.get_last_lr()
    [0.02]
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if value <= 0 or not isinstance(value, int):
                    raise ValueError(f"Expected positive integer {name}, but got {value}")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        _C._check_schedule("OneCycleLR", (total_steps, pct_start))
        self.total_steps, self.pct_start, self.three_phase = total_steps, pct_start, three_phase
        self.anneal_strategy = anneal_strategy
        self._take(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, _for_groups("max_lr", optimizer, max_lr), strict=True):
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of this batch; sets the momenta too."""
        how = (self.total_steps, self.pct_start, self.three_phase, self.anneal_strategy == "linear")
        groups = self.optimizer.param_groups
        rates = [self._value("OneCycleLR", *how, g["initial_lr"], g["max_lr"], g["min_lr"]) for g in groups]
        for g in groups if self.cycle_momentum else ():
            ends = (g["max_momentum"], g["base_momentum"], g["max_momentum"])
            self._set_momentum(g, self._value("OneCycleLR", *how, *ends))
        return rates


class CyclicLR(_Cycle):
    """Up and down between base_lr and max_lr, counting batches; momentum in the opposite direction.

    `mode` is "triangular", "triangular2" (half as high each cycle) or "exp_range" (gamma to the power of the batch);
    `scale_fn` replaces it.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5, momentum=0.9)
    >>> schedule = strata.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, step_size_up=50)
    >>> schedule.get_last_lr()
    [0.1]
    """

    _MODES = ("triangular", "triangular2", "exp_range")

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        if mode not in self._MODES and scale_fn is None:
            raise ValueError(f"mode is invalid and scale_fn is None: got {mode!r}, choose one of {self._MODES}")
        self.step_size_up = step_size_up
        self.step_size_down = step_size_up if step_size_down is None else step_size_down
        _C._check_schedule("CyclicLR", (self.step_size_up, self.step_size_down))
        self.mode, self.gamma, self._scale_fn_custom, self.scale_mode = mode, gamma, scale_fn, scale_mode
        self._take(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)
        base_lrs = _for_groups("base_lr", optimizer, base_lr)
        self.max_lrs = _for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                _set(group, "lr", lr)
                group["initial_lr"] = lr
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _height(self):
        if self._scale_fn_custom is None:
            mode = self._MODES.index(self.mode)
            return self._value("CyclicScale", mode, self.gamma, self.step_size_up, self.step_size_down)
        cycle = math.floor(1 + self.last_epoch / (self.step_size_up + self.step_size_down))
        return self._scale_fn_custom(cycle if self.scale_mode == "cycle" else self.last_epoch)

    def get_lr(self):
        """The rates of this batch; sets the momenta too."""
        height = self._height()

        def between(low, high):
            return self._value("CyclicLR", self.step_size_up, self.step_size_down, low, high, height)

        for g in self.optimizer.param_groups if self.cycle_momentum else ():
            self._set_momentum(g, between(g["max_momentum"], g["base_momentum"]))
        return [between(low, high) for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self):
        """Everything except the optimizer; of scale_fn, the attributes of a callable object."""
        function = self._scale_fn_custom
        return super().state_dict() | {"_scale_fn_custom": None if function is None else _function_state(function)}

    def load_state_dict(self, state_dict):
        """Restores the result of state_dict()."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])


class ReduceLROnPlateau(LRScheduler):
    """Reduces the rates when a metric, passed to `step`, has not improved for more than `patience` epochs.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5)
    >>> schedule = strata.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (1.0, 1.0, 1.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.05]
    """

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, found {factor}.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! Use 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! Use 'rel' or 'abs'")
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != len(optimizer.param_groups):
            raise ValueError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}")
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
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
