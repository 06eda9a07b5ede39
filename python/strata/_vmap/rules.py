"""The batching rules; importing it fills the tables."""

from . import indexing, layers, losses, pointwise, products, random, reductions, views  # noqa: F401
