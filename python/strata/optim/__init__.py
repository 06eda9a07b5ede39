"""Optimizers and learning-rate schedules, with PyTorch's names. A step is one fused pass over all parameters."""

from . import lr_scheduler
from ._rules import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Muon, NAdam, RAdam, RMSprop, Rprop
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sparse_adam import SparseAdam

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors; at run time __getattr__ imports them when first used
    from . import swa_utils

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
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]


def __getattr__(name):
    if name == "swa_utils":  # imports the modules, so only on first use
        import importlib

        return importlib.import_module(".swa_utils", __name__)
    raise AttributeError(f"module 'strata.optim' has no attribute {name!r}")
