"""The base of the schedulers, of those with a formula, and the schedulers with a user-defined function of the epoch. The
formulas are in the library, shared with C++; here is the bookkeeping."""

import types
import warnings
from collections import Counter

import strata
from strata import _C

from .optimizer import Optimizer


def _set(group, key, value):
    if isinstance(group[key], strata.Tensor):
        with strata.no_grad():
            group[key].fill_(float(value))
    else:
        group[key] = value


def _rates(optimizer, key="lr"):
    return [g[key].clone() if isinstance(g[key], strata.Tensor) else g[key] for g in optimizer.param_groups]


def _function_state(function):
    """The state of a function that can be saved: the attributes of a callable object, nothing of a plain function."""
    return None if isinstance(function, types.FunctionType) else dict(vars(function))


class LRScheduler:
    """Base of all schedulers.

    Custom subclasses override `get_lr`, which returns a rate for each parameter group from `self.last_epoch`,
    `self.base_lrs` and the groups' current rates. `last_epoch=-1` starts a new run; other values resume one, and need the
    `initial_lr` from the optimizer's state_dict.
    """

    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _rates(optimizer)[i])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0: "
                    "load the optimizer's state_dict first, or begin with last_epoch=-1"
                )
        self.base_lrs = _rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            del self._is_initial

    def get_lr(self):
        """The rates of this epoch, computed from the previous ones."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def get_last_lr(self):
        """The rates last set, one for each parameter group."""
        return self._last_lr

    def step(self, epoch=None):
        """The next epoch, or the given one. Call it after optimizer.step()."""
        if self._step_count == 1 and not self.optimizer._stepped:
            warnings.warn(
                "lr_scheduler.step() was called before optimizer.step(): the first rate of the schedule is skipped. "
                "Call them in the other order",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            rates = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            _set(group, "lr", lr)
        self._last_lr = _rates(self.optimizer)

    def state_dict(self):
        """Everything except the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict):
        """Restores the result of state_dict()."""
        vars(self).update(state_dict)


class Recorded(LRScheduler):
    """Base of the schedulers that are generated from records (src/nn/optim/schedules.schedulers), which name the schedule of
    the library, the options that are its numbers, and the allowed values of options that choose by name."""

    def __init_subclass__(cls, schedule=None, numbers=(), choices=None, **kwargs):
        super().__init_subclass__(**kwargs)
        if schedule:  # custom subclasses keep their parent's
            cls._schedule, cls._names, cls._choices = schedule, numbers, choices or {}

    def _check(self):
        _C._check_schedule(self._schedule, self._numbers())

    def _numbers(self):
        """The arguments of the schedule: an option that chooses by name is an index, the items of a list come last."""
        numbers = []
        for name in self._names:
            value = getattr(self, name)
            if name in self._choices:
                value = self._choices[name].index(value)
            numbers += sorted(value.elements()) if isinstance(value, Counter) else [value]
        return numbers

    def _check_choices(self, **values):
        for name, value in values.items():
            if value not in self._choices[name]:
                raise ValueError(f"{name} {value} is unknown: use {' or '.join(map(repr, self._choices[name]))}")


class Formula(Recorded):
    """A schedule with one formula of the epoch; its options are attributes."""

    def __init__(self, optimizer, last_epoch, **options):
        vars(self).update(options)
        self._check()
        super().__init__(optimizer, last_epoch)

    def _bases(self):
        """The initial rate of each group. A group that was added later starts from its current rate."""
        return [*self.base_lrs, *(g["lr"] for g in self.optimizer.param_groups[len(self.base_lrs) :])]

    def _evaluate(self, alone):
        numbers = self._numbers()
        return [
            _C._scheduled_lr(self._schedule, numbers, self.last_epoch, group["lr"], base, self._is_initial, alone)
            for group, base in zip(self.optimizer.param_groups, self._bases(), strict=True)
        ]

    def get_lr(self):
        """The rates of this epoch, computed from the previous ones."""
        return self._evaluate(False)

    def _get_closed_form_lr(self):
        return self._evaluate(True)


class FractionalFormula(Formula):
    """A formula that takes parts of an epoch too."""

    def step(self, epoch=None):
        """The next epoch, or the given one, which need not be an integer."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        super().step(epoch)
        self.last_epoch = int(self.last_epoch)


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch; a function for all groups, or a list with one for each.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5)
    >>> schedule = strata.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.95**epoch)
    """

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(self.lr_lambdas)}")
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of this epoch."""
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self):
        """Everything except the optimizer; of the functions, the attributes of callable objects."""
        return super().state_dict() | {"lr_lambdas": [_function_state(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict):
        """Restores the result of state_dict()."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                vars(function).update(saved)


class MultiplicativeLR(LambdaLR):
    """The previous rate times a function of the epoch.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5)
    >>> schedule = strata.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.95)
    """

    def get_lr(self):
        """The rates of this epoch, computed from the previous ones."""
        if self._is_initial:
            return _rates(self.optimizer)
        groups = self.optimizer.param_groups
        return [g["lr"] * function(self.last_epoch) for g, function in zip(groups, self.lr_lambdas, strict=True)]
