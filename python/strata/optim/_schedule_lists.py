"""Schedulers composed of schedulers: one after the other, or all at once."""

from bisect import bisect_right

from ._schedules import LRScheduler, _rates, _set


class _List(LRScheduler):
    def _take(self, optimizer, schedulers):
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name}: the scheduler at index {i} should have `optimizer` as its attribute.")
            if not hasattr(scheduler, "_update_lr") or type(scheduler).__name__ == "ReduceLROnPlateau":
                raise ValueError(
                    f"{name} does not support ReduceLROnPlateau, whose step needs a metric, but got one at index {i}."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but the one at index {i} has another."
                )
        self.optimizer = optimizer
        self._schedulers = list(schedulers)

    def _undo(self):
        for scheduler in self._schedulers:
            if isinstance(scheduler, _List):
                scheduler._undo()
            else:
                scheduler.last_epoch -= 1

    def state_dict(self):
        """Everything except the optimizer, with the state of each scheduler."""
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Restores the result of state_dict()."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_List):
    """One scheduler after the other; at milestones[i] the next one begins, at its epoch 0.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5)
    >>> warmup = strata.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
    >>> decay = strata.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    >>> schedule = strata.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[5])
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got {len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        if list(milestones) != sorted(milestones):
            raise ValueError(f"SequentialLR: the milestones must be in increasing order, got {milestones}")
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        self._undo()
        self._initial_step()

    def _initial_step(self):
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self):
        """The next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _update_lr(self, epoch=None):  # as part of another one
        self.last_epoch = epoch
        self._schedulers[0]._update_lr(epoch)
        self._last_lr = self._schedulers[0].get_last_lr()


class ChainedScheduler(_List):
    """Several schedulers at once: each step of it is a step of all.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5)
    >>> warmup = strata.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = strata.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    >>> schedule = strata.optim.lr_scheduler.ChainedScheduler([warmup, decay])
    """

    def __init__(self, schedulers, optimizer=None):
        self._take(optimizer or getattr(schedulers[0] if schedulers else None, "optimizer", None), schedulers)
        self._last_lr = _rates(self.optimizer)

    def _initial_step(self):
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = _rates(self.optimizer)

    def step(self):
        """The next epoch of every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _rates(self.optimizer)

    def _update_lr(self, epoch=None):  # as part of another one
        for scheduler in self._schedulers:
            scheduler._update_lr(epoch)
        self._last_lr = _rates(self.optimizer)
