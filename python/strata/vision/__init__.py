"""Image sets, transforms and grids of images, under the names of torchvision."""

from . import datasets, ops, transforms, utils

__all__ = ["datasets", "ops", "transforms", "utils"]
__version__ = "0.30.0"  # of the torchvision whose names these are
