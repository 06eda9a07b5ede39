"""Importing this puts Strata in the place of torch: see strata.torch."""

from .torch import install

install()
