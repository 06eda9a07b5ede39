"""Older names of strata.amp for "cuda"."""

from ..amp._older_names import classes_for
from ..amp.autocast_mode import custom_bwd as _custom_bwd
from ..amp.autocast_mode import custom_fwd as _custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = classes_for("cuda")


def custom_fwd(fwd=None, *, cast_inputs=None):
    """strata.amp.custom_fwd for "cuda"."""
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd=None):
    """strata.amp.custom_bwd for "cuda"."""
    return _custom_bwd(bwd, device_type="cuda")
