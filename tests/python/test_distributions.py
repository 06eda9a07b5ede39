"""Distributions against values that PyTorch computed (distributions.json, written by tools/record_distributions.py)."""

import json
import math
import pathlib

import numpy as np
import pytest
import strata
from strata import distributions as D

DATA = json.loads((pathlib.Path(__file__).parent / "distributions.json").read_text())
TOLERANCES = {"VonMises": 3e-7}  # polynomials of Bessel functions with seven digits


def build(specification):
    name, arguments = specification
    return getattr(D, name)(**{key: value_of(v) for key, v in arguments.items()})


def value_of(value):
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return strata.tensor(value["tensor"], dtype=strata.float64)
    if "dist" in value:
        return build(value["dist"])
    return [build(part) for part in value["transforms"]]


def array(value):
    """Nested lists as an array; "nan" and "inf" are texts in JSON."""
    return np.array(value, dtype=np.float64)


def refused(value):
    return isinstance(value, str) and value.endswith("Error")


def has_other_mode(name, arguments):
    """Whether the mode is one that PyTorch gets wrong (see differences.md); other tests are for them."""
    if name == "Kumaraswamy":
        return True
    values = [array(v["tensor"]) for v in arguments.values() if isinstance(v, dict) and "tensor" in v]
    concentrations = values[0] if name == "Dirichlet" else np.stack(values, -1) if name == "Beta" else np.ones(1)
    return bool((concentrations < 1).all(-1).any())


def check(specification, what, compute, expected):
    name = specification[0]
    if what == "mode" and has_other_mode(name, specification[1]):
        return
    if refused(expected):
        with pytest.raises((NotImplementedError, ValueError)):
            compute()
        return
    found, expected = compute(), array(expected)
    assert tuple(found.shape) == expected.shape, (name, what)
    rtol = TOLERANCES.get(name, 1e-9)
    np.testing.assert_allclose(found.double().numpy(), expected, rtol, 1e-11, err_msg=f"{specification} {what}")


def name_of(case):
    return f"{case['spec'][0]}-{'x'.join(map(str, case['batch_shape']))}"


@pytest.mark.parametrize("case", DATA["cases"], ids=name_of)
def test_values_are_those_of_pytorch(case):
    d = build(case["spec"])
    assert isinstance(d.batch_shape, strata.Size) and isinstance(d.event_shape, strata.Size)
    assert list(d.batch_shape) == case["batch_shape"] and list(d.event_shape) == case["event_shape"]
    assert d.has_rsample == case["has_rsample"]
    assert repr(d).replace("strata.Size", "Size") == case["repr"]
    points, chances = strata.from_numpy(array(case["points"])), strata.from_numpy(array(case["chances"]))
    if case["spec"][0] == "Categorical":
        points = points.long()
    check(case["spec"], "log_prob", lambda: d.log_prob(points), case["log_prob"])
    check(case["spec"], "cdf", lambda: d.cdf(points), case["cdf"])
    check(case["spec"], "icdf", lambda: d.icdf(chances), case["icdf"])
    check(case["spec"], "entropy", lambda: d.entropy(), case["entropy"])
    check(case["spec"], "support", lambda: d.support.check(points), case["support"])
    for name in ("mean", "mode", "variance", "stddev"):
        check(case["spec"], name, lambda name=name: getattr(d, name), case[name])
    if "enumerate_support" in case:
        check(case["spec"], "enumerate_support", lambda: d.enumerate_support(), case["enumerate_support"])
    if not refused(case["entropy"]):
        check(case["spec"], "perplexity", lambda: d.perplexity(), np.exp(array(case["entropy"])))


@pytest.mark.parametrize("case", DATA["divergences"], ids=lambda c: f"{c['p'][0]}-{c['q'][0]}")
def test_divergences_are_those_of_pytorch(case):
    p, q = build(case["p"]), build(case["q"])
    check(case["p"], "kl", lambda: D.kl_divergence(p, q), case["kl"])


def check_gradients(compute, expected, *specifications):
    if expected is None or not any(g is not None for g in expected):
        return
    names, leaves, distributions = [], [], []
    for name, arguments in specifications:
        values = {key: value_of(v) for key, v in arguments.items()}
        tensors = {key: v.requires_grad_() for key, v in values.items() if strata.is_tensor(v)}
        names += tensors
        leaves += tensors.values()
        distributions.append(getattr(D, name)(**values))
    found = strata.autograd.grad(compute(*distributions).sum(), leaves, allow_unused=True)
    for name, leaf, mine, theirs in zip(names, leaves, found, expected, strict=True):
        mine = np.zeros(leaf.shape) if mine is None else mine.numpy()
        theirs = np.zeros(leaf.shape) if theirs is None else array(theirs)
        if name == "scale_tril":  # the upper triangle is not read, but PyTorch's products pass it a gradient
            mine, theirs = np.tril(mine), np.tril(theirs)
        np.testing.assert_allclose(mine, theirs, 2e-7, 1e-9, err_msg=f"{specifications} {name}")


@pytest.mark.parametrize("case", DATA["cases"], ids=name_of)
def test_gradients_are_those_of_pytorch(case):
    points = strata.from_numpy(array(case["points"]))
    check_gradients(lambda d: d.log_prob(points), case["log_prob_grads"], case["spec"])
    check_gradients(lambda d: d.entropy(), case["entropy_grads"], case["spec"])


@pytest.mark.parametrize("case", DATA["divergences"], ids=lambda c: f"{c['p'][0]}-{c['q'][0]}")
def test_gradients_of_divergences_are_those_of_pytorch(case):
    check_gradients(D.kl_divergence, case["grads"], case["p"], case["q"])


def test_every_class_is_recorded():
    classes = {n for n in D.__all__ if isinstance(getattr(D, n), type) and issubclass(getattr(D, n), D.Distribution)}
    recorded = {case["spec"][0] for case in DATA["cases"]}
    assert classes - recorded == {"Distribution", "ExponentialFamily"}


@pytest.mark.parametrize("case", DATA["cases"], ids=name_of)
def test_expanded_distributions_have_the_same_values(case):
    d = build(case["spec"])
    shape = (3, *d.batch_shape)
    e = d.expand(shape)
    assert type(e) is type(d) and tuple(e.batch_shape) == shape and e.event_shape == d.event_shape
    points = strata.from_numpy(array(case["points"]))
    points = points.long() if case["spec"][0] == "Categorical" else points
    if not refused(case["log_prob"]):
        wide = points.unsqueeze(1)
        np.testing.assert_allclose(
            e.log_prob(wide.expand((2, 3, *points.shape[1:]))).numpy(),
            d.log_prob(points).unsqueeze(1).expand((2, *shape)).numpy(),
            rtol=1e-13,
        )
    for name in ("mean", "variance"):
        if not refused(case[name]):
            mean = getattr(e, name)
            assert tuple(mean.shape) == (*shape, *d.event_shape)
            np.testing.assert_array_equal(mean.numpy(), getattr(d, name).expand(mean.shape).numpy())
    assert tuple(e.sample((2,)).shape) == (2, *shape, *d.event_shape)


@pytest.mark.parametrize("case", DATA["cases"], ids=name_of)
@pytest.mark.parametrize("sample_shape", [(), (1,), (0,), (5,), (2, 3)])
def test_samples_have_their_shape_and_support(case, sample_shape):
    d = build(case["spec"])
    shape = (*sample_shape, *d.batch_shape, *d.event_shape)
    strata.manual_seed(5)
    x = d.sample(sample_shape)
    assert tuple(x.shape) == shape and not x.requires_grad
    assert bool(d.support.check(x).all())
    assert x.dtype in (strata.float64, strata.int64)
    if d.has_rsample:
        assert tuple(d.rsample(sample_shape).shape) == shape
    else:
        with pytest.raises(NotImplementedError):
            d.rsample(sample_shape)


def test_gradients_reach_the_parameters_of_samples():
    for case in DATA["cases"]:
        d = build(case["spec"])
        if not d.has_rsample:
            continue
        arguments = {k: value_of(v) for k, v in case["spec"][1].items()}
        leaves = {k: v.requires_grad_() for k, v in arguments.items() if strata.is_tensor(v)}
        if not leaves:  # of distributions inside
            continue
        strata.manual_seed(3)
        sample = getattr(D, case["spec"][0])(**arguments).rsample((4,))
        weights = strata.randn(sample.shape, dtype=sample.dtype)
        (sample * weights).sum().backward()
        for name, leaf in leaves.items():
            assert leaf.grad is not None and bool(leaf.grad.isfinite().all()), (case["spec"], name)


def gradient_matches_moments(make, parameter, n=200_000):
    """d E[x] / d parameter, from samples and from the mean."""
    p = strata.tensor(parameter, dtype=strata.float64, requires_grad=True)
    strata.manual_seed(11)
    d = make(p)
    (found,) = strata.autograd.grad(d.rsample((n,)).mean(0).sum(), p)
    (expected,) = strata.autograd.grad(make(p).mean.sum(), p)
    return found.item(), expected.item()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: D.Gamma(p, 2.0),
        lambda p: D.Gamma(2.0, p),
        lambda p: D.Beta(p, 1.5),
        lambda p: D.Beta(1.5, p),
        lambda p: D.Normal(0.5, 1.0).__class__(p, 2.0),
        lambda p: D.LogNormal(p, 0.5),
        lambda p: D.Laplace(p, 1.0),
        lambda p: D.Weibull(1.5, p),
        lambda p: D.Kumaraswamy(p, 2.0),
        lambda p: D.HalfNormal(p),
        lambda p: D.Exponential(p),
        lambda p: D.Gumbel(p, 1.0),
        lambda p: D.ContinuousBernoulli(p / 3),
        lambda p: D.Uniform(0.0, p),
    ],
)
def test_the_mean_gradient_of_samples_is_the_gradient_of_the_mean(make):
    found, expected = gradient_matches_moments(make, 1.4)
    assert abs(found - expected) < 0.02 * max(abs(expected), 0.5)


def test_dirichlet_gradients_agree_with_those_of_the_moments():
    c = strata.tensor([0.4, 1.3, 2.5], dtype=strata.float64, requires_grad=True)
    strata.manual_seed(2)
    for power in (1, 2):
        for i in range(3):
            samples = D.Dirichlet(c).rsample((100_000,))
            found = strata.autograd.grad(samples[:, i].pow(power).mean(), c)[0]
            total = c.sum()
            moment = c[i] / total if power == 1 else c[i] * (c[i] + 1) / (total * (total + 1))
            expected = strata.autograd.grad(moment, c)[0]
            np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=5e-3)


@pytest.mark.parametrize("row", DATA["gamma_slopes"], ids=lambda r: f"{r[0]:g}-{r[1]:.3g}")
def test_implicit_gradients_of_gamma_numbers(row):
    a, x, slope = (strata.tensor(v, dtype=strata.float64) for v in row)
    np.testing.assert_allclose(strata._standard_gamma_grad(a, x).item(), row[2], rtol=1e-9)
    log_slope = strata._C.ops["_standard_log_gamma_grad"](a, x.log()).item()
    np.testing.assert_allclose(log_slope, row[2] / row[1], rtol=1e-9)
    if 1e-4 < row[1]:
        single = strata._standard_gamma_grad(a.float(), x.float()).item()
        np.testing.assert_allclose(single, slope.item(), rtol=2e-4)  # the arguments are rounded


def test_entropy_of_exponential_families_from_their_normalizer():
    for d in (D.Normal(0.3, 1.7), D.Gamma(2.0, 3.0), D.Exponential(2.0), D.Bernoulli(0.3)):
        generic = D.ExponentialFamily.entropy(d)
        np.testing.assert_allclose(generic.item(), d.entropy().item(), rtol=2e-5)


def test_divergence_of_exponential_families_from_their_normalizer():
    pairs = [
        (D.Normal(0.3, 1.7), D.Normal(1.0, 0.5)),
        (D.Gamma(2.0, 3.0), D.Gamma(1.0, 0.7)),
        (D.Dirichlet(strata.tensor([0.5, 2.0])), D.Dirichlet(strata.tensor([1.5, 3.0]))),
        (D.Poisson(2.0), D.Poisson(3.0)),
    ]
    generic = D.kl._REGISTRY[D.ExponentialFamily, D.ExponentialFamily]
    for p, q in pairs:
        np.testing.assert_allclose(generic(p, q).item(), D.kl_divergence(p, q).item(), rtol=2e-5)
    eye = strata.eye(2)
    p, q = D.Wishart(5.0, eye), D.Wishart(4.0, 2 * eye)
    strata.manual_seed(0)
    x = p.sample((40_000,))
    estimate = (p.log_prob(x) - q.log_prob(x)).mean().item()
    assert abs(D.kl_divergence(p, q).item() - estimate) < 0.05


def test_kumaraswamy_mode_is_where_the_density_is_largest():
    d = D.Kumaraswamy(strata.tensor(2.5, dtype=strata.float64), 3.0)
    x = strata.linspace(0.001, 0.999, 9999, dtype=strata.float64)
    assert abs(x[d.log_prob(x).argmax()].item() - d.mode.item()) < 2e-4
    assert math.isnan(D.Kumaraswamy(0.5, 0.5).mode.item())


def test_the_mode_of_a_concave_dirichlet_distribution_is_its_steepest_corner():
    c = strata.tensor([[0.3, 0.8, 0.5], [0.9, 0.2, 0.1], [2.0, 3.0, 4.0]], dtype=strata.float64)
    expected = [[0, 1, 0], [1, 0, 0], [1 / 6, 2 / 6, 3 / 6]]
    np.testing.assert_allclose(D.Dirichlet(c).mode.numpy(), expected)
    assert D.Beta(0.3, 0.8).mode.item() == 0 and D.Beta(0.8, 0.3).mode.item() == 1


def test_densities_integrate_to_one():
    x = strata.linspace(-60, 60, 480_001, dtype=strata.float64)
    one = strata.tensor(1.3, dtype=strata.float64)
    for d in (
        D.Normal(one, 2.0),
        D.Laplace(one, 2.0),
        D.Gumbel(one, 2.0),
        D.Gamma(one * 2, 0.7),
        D.Weibull(one, 2.0),
        D.StudentT(one + 7, 1.0, 2.0),
        D.HalfNormal(one),
        D.LogNormal(one, 0.3),
        D.MixtureSameFamily(
            D.Categorical(strata.tensor([0.2, 0.8]).double()), D.Normal(strata.tensor([-3.0, 2.0]).double(), one)
        ),
    ):
        inside = x[d.support.check(x)]
        total = strata.trapezoid(d.log_prob(inside).exp(), inside).item()
        assert abs(total - 1) < 1e-3, (d, total)
