"""Mixed precision: autocast, gradient scaling, float8 layers (amp.fp8), and a report of the error of each layer."""

import importlib

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler
from .report import report

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "report"]


def __getattr__(name):
    if name == "fp8":  # it needs strata.nn, which needs this
        return importlib.import_module(".fp8", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
