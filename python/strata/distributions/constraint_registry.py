"""Transforms onto constrained sets: biject_to gives bijections, transform_to any map, e.g. for optimizers."""

from . import constraints as c
from . import transforms as t

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table of functions that make a transform for a kind of constraint."""

    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """Registers a factory for a class of constraints, or for that of an object; without one it is a decorator."""
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, c.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        """A transform from all real numbers onto the set."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint):
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint):
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low == 0 and high == 1:
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


_BOTH = {
    type(c.real): lambda constraint: t.identity_transform,
    type(c.positive): _above,
    type(c.nonnegative): _above,
    c.greater_than: _above,
    c.greater_than_eq: _above,
    c.less_than: _below,
    c.interval: _between,
    c.half_open_interval: _between,
    type(c.corr_cholesky): lambda constraint: t.CorrCholeskyTransform(),
}
_TRANSFORMS = {
    type(c.simplex): lambda constraint: t.SoftmaxTransform(),
    type(c.lower_cholesky): lambda constraint: t.LowerCholeskyTransform(),
    type(c.positive_definite): lambda constraint: t.PositiveDefiniteTransform(),
    type(c.positive_semidefinite): lambda constraint: t.PositiveDefiniteTransform(),
}


def _containers(registry):
    """Constraints that are made of others, with the transforms of those."""
    return {
        c.independent: lambda k: t.IndependentTransform(registry(k.base_constraint), k.reinterpreted_batch_ndims),
        c.cat: lambda k: t.CatTransform([registry(part) for part in k.cseq], k.dim, k.lengths),
        c.stack: lambda k: t.StackTransform([registry(part) for part in k.cseq], k.dim),
    }


biject_to._registry.update(_BOTH | _containers(biject_to))
biject_to._registry[type(c.simplex)] = lambda constraint: t.StickBreakingTransform()
transform_to._registry.update(_BOTH | _TRANSFORMS | _containers(transform_to))
