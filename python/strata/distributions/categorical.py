"""Distributions over categories: the probabilities or logits of all of them in the last dimension."""

import math

import strata
from strata.nn.functional import one_hot

from . import constraints
from .counts import Binomial, ProbsOrLogits
from .distribution import Distribution
from .utils import size

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(ProbsOrLogits):
    """Indices 0 to K - 1 with the given probabilities, which are normalized."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _parameters = {"probs": 1, "logits": 1}
    _is_binary = False

    def __init__(self, probs=None, logits=None, validate_args=None):
        name, value = self._choose(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self.probs = value / value.sum(-1, keepdim=True)
        else:
            self.logits = value - value.logsumexp(-1, keepdim=True)
        super().__init__(value.shape[:-1], validate_args=validate_args)

    @property
    def _num_events(self):
        return self._param.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    mean = property(lambda self: self._param.new_full(self._extended_shape(), math.nan))
    variance = property(lambda self: self._param.new_full(self._extended_shape(), math.nan))
    mode = property(lambda self: self.probs.argmax(-1))

    @strata.no_grad()
    def sample(self, sample_shape=()):
        rows = self.probs.reshape(-1, self._num_events)
        count = math.prod(sample_shape)
        if rows.shape[0] == 0 or count == 0:
            return strata.zeros(self._extended_shape(sample_shape), dtype=strata.int64, device=rows.device)
        return strata.multinomial(rows, count, True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        index = self._checked(value).long().unsqueeze(-1)
        shape = strata.broadcast_shapes(index.shape[:-1], self.logits.shape[:-1])
        logits = self.logits.expand(size(shape, (self._num_events,)))
        return logits.gather(-1, index.expand(size(shape, (1,)))).squeeze(-1)

    def entropy(self):
        finite = self.logits.clamp(min=strata.finfo(self.logits.dtype).min)  # 0 * -inf must be 0
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        return self._integers(self._num_events, expand).long()


class OverCategories(Distribution):
    """A distribution over vectors with an element per category."""

    arg_constraints = Categorical.arg_constraints
    _parameters = {}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _expand_into(self, new, batch_shape):
        new._categorical = self._categorical.expand(batch_shape)

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    _param = property(lambda self: self._categorical._param)


class OneHotCategorical(OverCategories):
    """One-hot vectors with the given probabilities."""

    support = constraints.one_hot
    has_enumerate_support = True
    _parameters = {}

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    mode = property(lambda self: self._one_hot(self.probs.argmax(-1)))

    def _one_hot(self, index):
        return one_hot(index, self.event_shape[-1]).to(self._param.dtype)

    @strata.no_grad()
    def sample(self, sample_shape=()):
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value):
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = strata.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(size((n,), (1,) * len(self.batch_shape), (n,)))
        return values.expand(size((n,), self.batch_shape, (n,))) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OverCategories):
    """How often each category is drawn in total_count draws."""

    _parameters = {}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    def _expand_into(self, new, batch_shape):
        super()._expand_into(new, batch_shape)
        new.total_count = self.total_count

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @strata.no_grad()
    def sample(self, sample_shape=()):
        draws = self._categorical.sample(size((self.total_count,), sample_shape))
        draws = draws.movedim(0, -1)
        counts = self._param.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, draws, self._param.new_ones(draws.shape))

    def entropy(self):
        """The entropy of independent draws, corrected for their order."""
        n = self.total_count
        counts = strata.arange(1, n + 1, dtype=self._param.dtype, device=self._param.device)
        counts = counts.reshape(size((-1,), (1,) * self._param.dim()))
        chances = Binomial(n, probs=self.probs, validate_args=False).log_prob(counts).exp()
        weights = strata.lgamma(counts + 1)
        return n * self._categorical.entropy() - math.lgamma(n + 1) + (chances * weights).sum((0, -1))

    def log_prob(self, value):
        logits, value = strata.broadcast_tensors(self.logits, self._checked(value))
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0.0)
        ways = strata.lgamma(value.sum(-1) + 1) - strata.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)
