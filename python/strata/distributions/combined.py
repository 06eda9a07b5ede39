"""Distributions made of others: batch dimensions that belong to the event, and mixtures."""

import strata

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import size, sum_rightmost

__all__ = ["Independent", "MixtureSameFamily"]


class Independent(Distribution):
    """The last batch dimensions of a distribution as part of its event: log_prob is summed over them."""

    arg_constraints = {}
    _parameters = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        n = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > n:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {n}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        shape = size(base_distribution.batch_shape, base_distribution.event_shape)
        cut = n - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_into(self, new, batch_shape):
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(size(batch_shape, inner))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def has_enumerate_support(self):
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        n = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, n) if n else self.base_dist.support

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: the last batch dimension of the components is chosen by a categorical distribution."""

    arg_constraints = {}
    has_rsample = False
    _parameters = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of strata.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of strata.distributions.Distribution")
        outer, inner = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(outer), reversed(inner), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({outer}) is not compatible with "
                    f"`component_distribution.batch_shape`({inner})"
                )
        chosen, there = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if chosen != there:
            raise ValueError(
                f"`mixture_distribution component` ({chosen}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({there})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(inner, component_distribution.event_shape, validate_args=validate_args)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)
    _count = property(lambda self: self._component_distribution.batch_shape[-1])
    _events = property(lambda self: len(self.event_shape))

    def _expand_into(self, new, batch_shape):
        new._component_distribution = self._component_distribution.expand(size(batch_shape, (self._count,)))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _padded(self, value):
        return value.unsqueeze(-1 - self._events)

    @property
    def _weights(self):
        probs = self._mixture_distribution.probs
        return probs.reshape(size(probs.shape, (1,) * self._events))

    @property
    def mean(self):
        return (self._weights * self._component_distribution.mean).sum(-1 - self._events)

    @property
    def variance(self):
        spread = (self._component_distribution.mean - self._padded(self.mean)).square()
        return (self._weights * (self._component_distribution.variance + spread)).sum(-1 - self._events)

    def cdf(self, value):
        inner = self._component_distribution.cdf(self._padded(self._checked(value)))
        return (inner * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value):
        inner = self._component_distribution.log_prob(self._padded(self._checked(value)))
        return (inner + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    @strata.no_grad()
    def sample(self, sample_shape=()):
        index = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
        samples = self._component_distribution.sample(sample_shape)
        index = index.reshape(size(index.shape, (1,) * (self._events + 1)))
        index = index.expand(size(index.shape[: len(sample_shape) + len(self.batch_shape)], (1,), self.event_shape))
        dim = len(sample_shape) + len(self.batch_shape)
        return samples.gather(dim, index).squeeze(dim)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
