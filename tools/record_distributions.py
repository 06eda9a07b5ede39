#!/usr/bin/env python3
"""Writes the expected values of tests/python/test_distributions.py, computed by PyTorch and mpmath.

usage: record_distributions.py [OUTPUT]     (needs torch and mpmath; the tests need neither)

Each case is the specification of a distribution, points, and what PyTorch computes there. A specification is
[class, {argument: value}]; a value is a number, {"tensor": nested lists}, {"dist": specification} or
{"transform": [class, {argument: value}]}. All tensors are float64. A result that PyTorch refuses is the name of its error.
"""

import json
import pathlib
import random
import sys
import warnings

OUTPUT = pathlib.Path(__file__).parent.parent / "tests/python/distributions.json"
RESULTS = ("mean", "mode", "variance", "stddev")


def numbers(shape, low, high):
    """Random numbers with four digits in nested lists of this shape."""
    if not shape:
        return round(random.uniform(low, high), 4)
    return [numbers(shape[1:], low, high) for _ in range(shape[0])]


def tensor(shape=(), low=0.3, high=3.0):
    return {"tensor": numbers(shape, low, high)}


def simplex(shape):
    import numpy as np

    raw = np.array(numbers(shape, 0.2, 1.0))
    return {"tensor": (raw / raw.sum(-1, keepdims=True)).tolist()}


def definite(n, batch=()):
    import numpy as np

    raw = np.array(numbers((*batch, n, n), -1, 1))
    return {"tensor": (raw @ np.swapaxes(raw, -1, -2) + 0.5 * np.eye(n)).round(4).tolist()}


def lower(n, batch=()):
    import numpy as np

    raw = np.tril(np.array(numbers((*batch, n, n), -1, 1)), -1) + np.eye(n) * 0.7
    return {"tensor": raw.tolist()}


def real(shape=()):
    return tensor(shape, -2, 2)


def unit(shape=()):
    return tensor(shape, 0.1, 0.9)


def counts(shape=(), low=0, high=9):
    import numpy as np

    return {
        "tensor": np.random.default_rng(random.getrandbits(30)).integers(low, high + 1, shape).astype(float).tolist()
    }


def specifications(shape):
    """A specification of each class (of some, several), with the batch shape where there is a choice."""
    s = shape
    normal = ["Normal", {"loc": real((*s, 3)), "scale": tensor((*s, 3))}]
    return [
        ["Bernoulli", {"probs": unit(s)}],
        ["Bernoulli", {"logits": real(s)}],
        ["Beta", {"concentration1": tensor(s), "concentration0": tensor(s)}],
        ["Beta", {"concentration1": tensor(s, 1.2, 4), "concentration0": tensor(s, 1.2, 4)}],
        ["Binomial", {"total_count": 7, "probs": unit(s)}],
        ["Binomial", {"total_count": counts(s, 1, 9), "logits": real(s)}],
        ["Categorical", {"probs": tensor((*s, 4))}],
        ["Categorical", {"logits": real((*s, 4))}],
        ["Cauchy", {"loc": real(s), "scale": tensor(s)}],
        ["Chi2", {"df": tensor(s)}],
        ["ContinuousBernoulli", {"probs": unit(s)}],
        ["ContinuousBernoulli", {"probs": tensor(s, 0.4992, 0.5008)}],
        ["ContinuousBernoulli", {"logits": real(s)}],
        ["Dirichlet", {"concentration": tensor((*s, 3))}],
        ["Dirichlet", {"concentration": tensor((*s, 3), 1.1, 4)}],
        ["Dirichlet", {"concentration": tensor((*s, 3), 0.2, 0.9)}],
        ["Exponential", {"rate": tensor(s)}],
        ["FisherSnedecor", {"df1": tensor(s, 1, 6), "df2": tensor(s, 1, 9)}],
        ["Gamma", {"concentration": tensor(s), "rate": tensor(s)}],
        ["GeneralizedPareto", {"loc": real(s), "scale": tensor(s), "concentration": tensor(s, -0.6, 1.4)}],
        ["GeneralizedPareto", {"loc": 0.5, "scale": tensor(s), "concentration": 0.0}],
        ["Geometric", {"probs": unit(s)}],
        ["Geometric", {"logits": real(s)}],
        ["Gumbel", {"loc": real(s), "scale": tensor(s)}],
        ["HalfCauchy", {"scale": tensor(s)}],
        ["HalfNormal", {"scale": tensor(s)}],
        ["Independent", {"base_distribution": {"dist": normal}, "reinterpreted_batch_ndims": 1}],
        ["InverseGamma", {"concentration": tensor(s), "rate": tensor(s)}],
        ["Kumaraswamy", {"concentration1": tensor(s), "concentration0": tensor(s)}],
        ["LKJCholesky", {"dim": 3, "concentration": tensor(s)}],
        ["Laplace", {"loc": real(s), "scale": tensor(s)}],
        ["LogNormal", {"loc": real(s), "scale": tensor(s)}],
        ["LogisticNormal", {"loc": real((*s, 2)), "scale": tensor((*s, 2))}],
        [
            "LowRankMultivariateNormal",
            {"loc": real((*s, 3)), "cov_factor": real((*s, 3, 2)), "cov_diag": tensor((3,))},
        ],
        [
            "MixtureSameFamily",
            {
                "mixture_distribution": {"dist": ["Categorical", {"probs": tensor((*s, 3))}]},
                "component_distribution": {"dist": normal},
            },
        ],
        ["Multinomial", {"total_count": 6, "probs": tensor((*s, 3))}],
        ["Multinomial", {"total_count": 6, "logits": real((*s, 3))}],
        ["MultivariateNormal", {"loc": real((*s, 3)), "covariance_matrix": definite(3)}],
        ["MultivariateNormal", {"loc": real((3,)), "precision_matrix": definite(3, s)}],
        ["MultivariateNormal", {"loc": real((*s, 3)), "scale_tril": lower(3, s)}],
        ["NegativeBinomial", {"total_count": tensor(s, 0.5, 6), "probs": unit(s)}],
        ["NegativeBinomial", {"total_count": 4, "logits": real(s)}],
        ["Normal", {"loc": real(s), "scale": tensor(s)}],
        ["OneHotCategorical", {"probs": tensor((*s, 4))}],
        ["OneHotCategoricalStraightThrough", {"logits": real((*s, 4))}],
        ["Pareto", {"scale": tensor(s), "alpha": tensor(s, 0.5, 4)}],
        ["Poisson", {"rate": tensor(s, 0, 9)}],
        ["RelaxedBernoulli", {"temperature": {"tensor": 0.7}, "probs": unit(s)}],
        ["RelaxedOneHotCategorical", {"temperature": {"tensor": 0.7}, "logits": real((*s, 4))}],
        ["StudentT", {"df": tensor(s, 0.5, 5), "loc": real(s), "scale": tensor(s)}],
        [
            "TransformedDistribution",
            {
                "base_distribution": {"dist": ["Normal", {"loc": real(s), "scale": tensor(s)}]},
                "transforms": {
                    "transforms": [
                        ["AffineTransform", {"loc": real(s), "scale": {"tensor": -1.5}}],
                        ["SigmoidTransform", {}],
                    ]
                },
            },
        ],
        ["Uniform", {"low": tensor(s, -1, 0), "high": tensor(s, 0.5, 2)}],
        ["VonMises", {"loc": real(s), "concentration": tensor(s, 0.1, 9)}],
        ["Weibull", {"scale": tensor(s), "concentration": tensor(s, 1, 3)}],
        ["Wishart", {"df": tensor(s, 4, 7), "covariance_matrix": definite(3)}],
        ["Wishart", {"df": tensor(s, 4, 7), "scale_tril": lower(3, s)}],
    ]


def build(torch, specification):
    """The distribution or transform of a specification."""
    name, arguments = specification
    return getattr(torch.distributions, name)(**{key: value_of(torch, v) for key, v in arguments.items()})


def value_of(torch, value):
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return torch.tensor(value["tensor"], dtype=torch.float64)
    if "dist" in value:
        return build(torch, value["dist"])
    return [build(torch, part) for part in value["transforms"]]


def result(compute):
    """What it returns as lists, or the name of its error."""
    try:
        return compute().tolist()
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__


def gradients(torch, compute, *specifications):
    """The gradients of the sum of compute(*distributions) for the tensors among the arguments, None without one."""
    leaves, distributions = [], []
    for name, arguments in specifications:
        values = {key: value_of(torch, v) for key, v in arguments.items()}
        leaves += [v.requires_grad_() for v in values.values() if torch.is_tensor(v)]
        distributions.append(getattr(torch.distributions, name)(**values))
    try:
        found = torch.autograd.grad(compute(*distributions).sum(), leaves, allow_unused=True)
    except (NotImplementedError, RuntimeError):
        return None
    return [None if g is None else g.tolist() for g in found]


def record(torch, specification):
    d = build(torch, specification)
    torch.manual_seed(random.getrandbits(30))
    points = d.sample((2,))
    chances = torch.tensor(numbers((2, *d.batch_shape, *([] if not d.event_shape else d.event_shape)), 0.05, 0.95))
    chances = chances.double()
    case = {
        "spec": specification,
        "batch_shape": list(d.batch_shape),
        "event_shape": list(d.event_shape),
        "has_rsample": d.has_rsample,
        "repr": repr(build(torch, specification)).replace("torch.Size", "Size"),
        "points": points.tolist(),
        "chances": chances.tolist(),
        "log_prob": result(lambda: d.log_prob(points)),
        "cdf": result(lambda: d.cdf(points)),
        "icdf": result(lambda: d.icdf(chances)),
        "entropy": result(lambda: d.entropy()),
        "support": result(lambda: d.support.check(points)),
    }
    case["log_prob_grads"] = gradients(torch, lambda d: d.log_prob(points), specification)
    case["entropy_grads"] = gradients(torch, lambda d: d.entropy(), specification)
    for name in RESULTS:
        case[name] = result(lambda name=name: getattr(d, name))
    if d.has_enumerate_support:
        case["enumerate_support"] = result(lambda: d.enumerate_support())
    return case


def narrow(specification):
    """The specification of the uniform distribution inside of [0, 1], where its divergences are finite."""
    return ["Uniform", {"low": unit_part(0.05, 0.4), "high": unit_part(0.5, 0.95)}]


def unit_part(low, high):
    return tensor((2,), low, high)


def record_divergences(torch):
    from torch.distributions.kl import _KL_REGISTRY

    first = {}
    for specification in specifications((2,)):
        first.setdefault(specification[0], []).append(specification)
    first["Pareto"].append(["Pareto", {"scale": tensor((2,), 0.01, 0.04), "alpha": tensor((2,), 2.5, 4)}])
    first["Uniform"].append(narrow(None))
    cases = []
    for p, q in _KL_REGISTRY:
        names = (p.__name__, q.__name__)
        for a in first.get(names[0], []):
            others = specifications((2,)) + [first["Pareto"][-1], narrow(None)]
            for b in [s for s in others if s[0] == names[1]]:
                value = result(lambda a=a, b=b: torch.distributions.kl_divergence(build(torch, a), build(torch, b)))
                slopes = gradients(torch, torch.distributions.kl_divergence, a, b)
                cases.append({"p": a, "q": b, "kl": value, "grads": slopes})
    return cases


def record_gamma_slopes():
    """[a, x, d x / d a at a constant distribution function], in 40 digits."""
    import mpmath

    mpmath.mp.dps = 40
    slopes = []
    for a in (1e-3, 0.1, 0.5, 1, 3, 10, 25, 29.5, 31, 100, 900):
        for u in (1e-8, 1e-3, 0.2, 0.5, 0.9, 0.999, 1 - 1e-9):
            x = max(a * (1 - 1 / (9 * a) + float(mpmath.sqrt(2) * mpmath.erfinv(2 * u - 1)) / 3 / a**0.5) ** 3, a / 9)
            step = mpmath.mpf(10) ** -15
            below = x < a + 1
            limits = (0, x) if below else (x, mpmath.inf)
            tail = [mpmath.gammainc(a + d, *limits, regularized=True) for d in (-step, step)]
            density = mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))
            slope = (tail[1] - tail[0]) / (2 * step) / density * (-1 if below else 1)
            slopes.append([a, x, float(slope)])
    return slopes


def plain(value):
    """Lists with strings for numbers that JSON has not."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def main(output):
    import torch

    torch.set_default_dtype(torch.float64)  # some classes mix their parameters with tensors of the default dtype
    warnings.simplefilter("ignore")
    random.seed(14)
    data = {
        "torch": torch.__version__.split("+")[0],
        "cases": [record(torch, s) for shape in ((), (2,)) for s in specifications(shape)],
        "divergences": record_divergences(torch),
        "gamma_slopes": record_gamma_slopes(),
    }
    lines = {key: plain(value) for key, value in data.items()}
    parts = []
    for key, value in lines.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            parts.append(f'"{key}": [\n{rows}\n]')
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    pathlib.Path(output).write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else OUTPUT)
