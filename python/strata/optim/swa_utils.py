"""Averages of a model's weights during training: with equal weights (SWA) or exponential ones (EMA)."""

import copy
import math

import strata

from .. import nn
from ._schedules import LRScheduler
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def get_ema_avg_fn(decay=0.999):
    """avg_fn of the exponential moving average: decay * average + (1 - decay) * parameter."""
    _check_decay(decay)

    def average(ema_param, current_param, _):
        return decay * ema_param + (1 - decay) * current_param

    return strata.no_grad()(average)


def get_ema_multi_avg_fn(decay=0.999):
    """multi_avg_fn of the exponential moving average."""
    _check_decay(decay)

    def average(ema_params, current_params, _):
        for mine, theirs in zip(ema_params, current_params, strict=True):
            mine.lerp_(theirs.to(mine.dtype), 1 - decay) if mine.is_floating_point() else mine.copy_(theirs)

    return strata.no_grad()(average)


def get_swa_avg_fn():
    """avg_fn of equal weights: the mean of all parameters so far."""

    def average(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return strata.no_grad()(average)


def get_swa_multi_avg_fn():
    """multi_avg_fn of equal weights."""
    mean = get_swa_avg_fn()

    def average(averaged_params, current_params, num_averaged):
        for mine, theirs in zip(averaged_params, current_params, strict=True):
            mine.copy_(mean(mine, theirs.to(mine.dtype), num_averaged) if mine.is_floating_point() else theirs)

    return strata.no_grad()(average)


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(nn.Module):
    """A copy of a model whose parameters are the average of those seen by update_parameters().

    Buffers are averaged with use_buffers=True, otherwise copied; update_bn() recomputes those of batch norms.

    >>> model = strata.nn.Linear(2, 2)
    >>> ema = strata.optim.swa_utils.AveragedModel(model, multi_avg_fn=strata.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    >>> ema.update_parameters(model)
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", strata.tensor(0, dtype=strata.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _averaged(self, module):
        found = list(module.parameters())
        return found + list(module.buffers()) if self.use_buffers else found

    @strata.no_grad()
    def update_parameters(self, model):
        """Adds the model's current parameters to the average."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        if [p.shape for p in mine] != [p.shape for p in theirs]:
            raise ValueError(
                "update_parameters: the model must have the parameters of the one that the average was made from"
            )
        count = int(self.n_averaged)
        if count == 0:
            for a, b in zip(mine, theirs, strict=True):
                a.copy_(b)
        elif self.avg_fn is not None:
            for a, b in zip(mine, theirs, strict=True):
                a.copy_(self.avg_fn(a, b.to(a.device), self.n_averaged))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(mine, theirs, self.n_averaged)
        if not self.use_buffers:
            for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                a.copy_(b)
        self.n_averaged += 1


@strata.no_grad()
def update_bn(loader, model, device=None):
    """Recomputes the statistics of all batch norms from the data of a loader; for (input, target) pairs, from the inputs."""
    norms = {m: m.momentum for m in model.modules() if isinstance(m, _NORMS)}
    if not norms:
        return
    was_training = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    model.train()
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From the current rate to swa_lr in anneal_epochs, along a cosine or a line, then constant.

    >>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5)
    >>> schedule = strata.optim.swa_utils.SWALR(optimizer, swa_lr=0.05)
    """

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"swa_lr must have one rate per parameter group: expected {len(groups)}, got {len(rates)}")
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch):
        t = 1.0 if not self.anneal_epochs else min(max(epoch / self.anneal_epochs, 0.0), 1.0)
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t

    def get_lr(self):
        """The rates of this epoch, computed from the previous ones: another schedule may have changed them."""
        before, now = self._share(self.last_epoch - 1), self._share(self.last_epoch)
        rates = []
        for group in self.optimizer.param_groups:
            start = group["lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(now * group["swa_lr"] + (1 - now) * start)
        return rates
