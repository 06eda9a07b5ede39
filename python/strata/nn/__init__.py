"""Neural networks."""

from . import functional
from .parameter import Parameter

__all__ = ["Parameter", "functional"]
