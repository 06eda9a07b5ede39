"""The base classes: shapes, validation of parameters and values, expansion, and entropies of exponential families."""

import math
import warnings

import strata

from . import constraints
from .utils import broadcast_all, lazy_property, size, sum_rightmost

__all__ = ["Distribution", "ExponentialFamily"]

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Distribution:
    """A probability distribution over events of shape event_shape, independent over batch_shape.

    A family declares `arg_constraints`, `support`, and `_parameters`: the attributes that expand() has to expand, with
    the number of their event dimensions.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _parameters = None

    @staticmethod
    def set_default_validate_args(value):
        """Turns validation of parameters and values on or off for all distributions created later."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, found {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = size(batch_shape), size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self):
        try:
            table = self.arg_constraints
        except NotImplementedError:
            table = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
        for name, constraint in table.items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (lazy and name not in self.__dict__):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{_shown(value)}"
                )

    def _broadcast(self, validate_args, **parameters):
        """Sets parameters, broadcast to one shape, which is the batch shape."""
        tensors = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, tensors, strict=True))
        Distribution.__init__(self, tensors[0].shape, validate_args=validate_args)

    @property
    def batch_shape(self):
        """The shape of independent, differently parameterized distributions."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one draw of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + event_shape, without a gradient."""
        with strata.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Draws that are differentiable with respect to the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        """sample((n,)); deprecated."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value):
        """The logarithm of the density or probability of value."""
        raise NotImplementedError

    def cdf(self, value):
        """The cumulative distribution function."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self):
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self):
        """e to the power of the entropy."""
        return self.entropy().exp()

    def expand(self, batch_shape, _instance=None):
        """The same distribution with a larger batch shape; parameters are expanded without copies."""
        family = next((c for c in type(self).__mro__ if vars(c).get("_parameters") is not None), None)
        if family is None:
            raise NotImplementedError
        new, batch_shape = self._get_checked_instance(family, _instance), size(batch_shape)
        self._expand_into(new, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new, batch_shape):
        for name, event_dim in self._parameters.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(size(batch_shape, value.shape[value.dim() - event_dim :]))

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape=()):
        return size(sample_shape, self._batch_shape, self._event_shape)

    def _validate_sample(self, value):
        if not strata.is_tensor(value):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, events = tuple(value.shape), len(self._event_shape)
        if events and shape[max(len(shape) - events, 0) :] != tuple(self._event_shape):
            found = strata.Size(shape[max(len(shape) - events, 0) :])
            raise ValueError(f"The right-most size of value must match event_shape: {found} vs {self._event_shape}.")
        expected = size(self._batch_shape, self._event_shape)
        for found, wanted in zip(reversed(shape), reversed(expected), strict=False):
            if found not in (1, wanted) and wanted != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {shape}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{_shown(value)}"
            )

    def _checked(self, value):
        """The value, after its validation if that is on."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def __repr__(self):
        table = self.arg_constraints if isinstance(self.arg_constraints, dict) else {}
        parts = (f"{name}: {_shown(self.__dict__[name], True)}" for name in table if name in self.__dict__)
        return f"{type(self).__name__}({', '.join(parts)})"


def _shown(value, brief=False):
    if not strata.is_tensor(value):
        return value
    if value.dim() == 0:
        return value.item()
    return value.shape if brief and value.numel() != 1 else value


class ExponentialFamily(Distribution):
    """A density exp(<natural parameters, statistics> - log normalizer + carrier measure)."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """From the log normalizer, whose gradient is the mean of the statistics."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with strata.enable_grad():
            normalizer = self._log_normalizer(*natural)
            gradients = strata.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(natural, gradients, strict=True):
            result = result - sum_rightmost(parameter * gradient, parameter.dim() - len(self.batch_shape))
        return result
