"""Utilities."""

from . import checkpoint

__all__ = ["checkpoint"]
