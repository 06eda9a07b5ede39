"""Image sets and transforms, under the names of torchvision."""

from . import datasets, transforms

__all__ = ["datasets", "transforms"]
