"""Probability distributions, transforms and constraints, as in torch.distributions."""

import sys

from . import (
    categorical,
    combined,
    constraints,
    counts,
    distribution,
    kl,
    location_scale,
    multivariate,
    positive,
    transformed,
    transforms,
    utils,
)
from .categorical import *
from .combined import *
from .constraint_registry import biject_to, transform_to
from .counts import *
from .distribution import *
from .kl import kl_divergence, register_kl
from .location_scale import *
from .multivariate import *
from .positive import *
from .transformed import *
from .transforms import *

_MODULES = (categorical, combined, counts, distribution, location_scale, multivariate, positive, transformed)
__all__ = [name for module in (*_MODULES, transforms) for name in module.__all__]
__all__ += ["biject_to", "kl_divergence", "register_kl", "transform_to"]

# PyTorch has a module per distribution. Their names are aliases of the modules here, so that
# `from strata.distributions.normal import Normal` works.
_ALIASES = {
    categorical: ("multinomial", "one_hot_categorical"),
    combined: ("independent", "mixture_same_family"),
    counts: ("bernoulli", "binomial", "continuous_bernoulli", "geometric", "negative_binomial", "poisson"),
    distribution: ("exp_family",),
    location_scale: ("cauchy", "generalized_pareto", "laplace", "normal", "studentT", "uniform", "von_mises"),
    multivariate: ("lkj_cholesky", "lowrank_multivariate_normal", "multivariate_normal", "wishart"),
    positive: ("beta", "chi2", "dirichlet", "exponential", "fishersnedecor", "gamma"),
    transformed: (
        "gumbel",
        "half_cauchy",
        "half_normal",
        "inverse_gamma",
        "kumaraswamy",
        "log_normal",
        "logistic_normal",
        "pareto",
        "relaxed_bernoulli",
        "relaxed_categorical",
        "transformed_distribution",
        "weibull",
    ),
}
for _module, _names in _ALIASES.items():
    for _name in _names:
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
