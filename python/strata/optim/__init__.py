"""Optimizers and learning-rate schedules, with PyTorch's names. A step is one fused pass over all parameters."""

from . import lr_scheduler
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rules import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Muon, NAdam, RAdam, RMSprop, Rprop

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
