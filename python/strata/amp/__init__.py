"""Mixed precision: autocast, gradient scaling, and a report of the error of each layer. Names are PyTorch's."""

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler
from .report import report

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "report"]
