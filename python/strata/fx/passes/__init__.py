"""Passes over graphs: shapes, splitting, drawing as text."""

from . import graph_manipulation, shape_prop, split_module

__all__ = ["graph_manipulation", "shape_prop", "split_module"]
