"""Older names of strata.amp for the CPU."""

from ..amp._older_names import classes_for

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = classes_for("cpu")
