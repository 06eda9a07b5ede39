"""Distributions as programs use them: names, errors, validation, shapes, dtypes, subclasses, mixtures, devices."""

import importlib
import math
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import strata
from strata import distributions as D
from strata.distributions import constraints as C

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ONES, ZEROS, EYE = strata.ones, strata.zeros, strata.eye(2)


def t(values):
    return strata.tensor(values)


# PyTorch's modules, each with a name it exports.
MODULES = {
    "bernoulli": "Bernoulli",
    "beta": "Beta",
    "binomial": "Binomial",
    "categorical": "Categorical",
    "cauchy": "Cauchy",
    "chi2": "Chi2",
    "constraint_registry": "biject_to",
    "constraints": "real",
    "continuous_bernoulli": "ContinuousBernoulli",
    "dirichlet": "Dirichlet",
    "distribution": "Distribution",
    "exp_family": "ExponentialFamily",
    "exponential": "Exponential",
    "fishersnedecor": "FisherSnedecor",
    "gamma": "Gamma",
    "generalized_pareto": "GeneralizedPareto",
    "geometric": "Geometric",
    "gumbel": "Gumbel",
    "half_cauchy": "HalfCauchy",
    "half_normal": "HalfNormal",
    "independent": "Independent",
    "inverse_gamma": "InverseGamma",
    "kl": "kl_divergence",
    "kumaraswamy": "Kumaraswamy",
    "laplace": "Laplace",
    "lkj_cholesky": "LKJCholesky",
    "log_normal": "LogNormal",
    "logistic_normal": "LogisticNormal",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal",
    "mixture_same_family": "MixtureSameFamily",
    "multinomial": "Multinomial",
    "multivariate_normal": "MultivariateNormal",
    "negative_binomial": "NegativeBinomial",
    "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical",
    "pareto": "Pareto",
    "poisson": "Poisson",
    "relaxed_bernoulli": "LogitRelaxedBernoulli",
    "relaxed_categorical": "ExpRelaxedCategorical",
    "studentT": "StudentT",
    "transformed_distribution": "TransformedDistribution",
    "transforms": "ExpTransform",
    "uniform": "Uniform",
    "utils": "broadcast_all",
    "von_mises": "VonMises",
    "weibull": "Weibull",
    "wishart": "Wishart",
}


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_the_names_of_pytorch(module):
    found = importlib.import_module(f"strata.distributions.{module}")
    assert hasattr(found, MODULES[module]) and hasattr(D, module)


def test_the_package_is_imported_when_it_is_first_used():
    code = (
        "import sys, strata\nassert 'strata.distributions' not in sys.modules\n"
        "assert 'distributions' in dir(strata)\nprint(strata.distributions.Normal(0., 1.))\n"
        "from strata.distributions import Normal, Categorical, kl_divergence\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "Normal(loc: 0.0, scale: 1.0)\n"


VALUE_ERRORS = [
    (
        lambda: D.Normal(0.0, -1.0),
        r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal\(loc: 0.0",
    ),
    (lambda: D.Normal("a", 1.0), "Input arguments must all be instances of Number"),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), "must be a Tensor"),
    (lambda: D.Normal(0.0, 1.0).log_prob(t(math.nan)), r"within the support \(Real\(\)\)"),
    (lambda: D.Normal(ZEROS(2), 1.0).log_prob(ZEROS(3)), "Value is not broadcastable"),
    (lambda: D.Categorical(ONES(3)).log_prob(t(5)), "IntegerInterval"),
    (lambda: D.Dirichlet(ONES(3)).log_prob(ONES(2) / 2), "right-most size of value"),
    (lambda: D.Dirichlet(t(1.0)), "at least one-dimensional"),
    (lambda: D.Categorical(t(1.0)), "`probs` parameter must be at least one-dimensional"),
    (lambda: D.Categorical(logits=t(1.0)), "`logits` parameter must be at least one-dimensional"),
    (lambda: D.Bernoulli(), "Either `probs` or `logits`"),
    (lambda: D.Bernoulli(0.5, 0.5), "Either `probs` or `logits`"),
    (lambda: D.Bernoulli(1.5), "Interval"),
    (lambda: D.ContinuousBernoulli(1.5, validate_args=True), "probs"),
    (lambda: D.Geometric(0.0), "to be positive"),
    (lambda: D.NegativeBinomial(3, ONES(3)), "HalfOpenInterval"),
    (lambda: D.Uniform(1.0, 0.0), "LessThan"),
    (lambda: D.Independent(D.Normal(ZEROS(2), 1.0), 2), "reinterpreted_batch_ndims"),
    (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(ZEROS(3), 1.0)), "Mixture distribution"),
    (lambda: D.MixtureSameFamily(D.Categorical(ONES(2)), 3), "Component distribution"),
    (lambda: D.MixtureSameFamily(D.Categorical(ONES(2)), D.Normal(ZEROS(3), 1.0)), "does not equal"),
    (lambda: D.MixtureSameFamily(D.Categorical(ONES(4, 2)), D.Normal(ZEROS(3, 2), 1.0)), "not compatible"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [1]), "transforms must be a Transform"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()), "at least 1"),
    (lambda: D.MultivariateNormal(ZEROS(2)), "Exactly one of"),
    (lambda: D.MultivariateNormal(ZEROS(2), EYE, EYE), "Exactly one of"),
    (lambda: D.MultivariateNormal(t(0.0), EYE), "loc must be at least one-dimensional"),
    (lambda: D.MultivariateNormal(ZEROS(2), ONES(2)), "covariance_matrix must be at least two-dimensional"),
    (lambda: D.MultivariateNormal(ZEROS(2), -EYE), "PositiveDefinite"),
    (lambda: D.LowRankMultivariateNormal(ZEROS(2), ONES(3, 1), ONES(2)), "2 x m"),
    (lambda: D.LowRankMultivariateNormal(ZEROS(2), ONES(2), ONES(2)), "cov_factor must be at least"),
    (lambda: D.LowRankMultivariateNormal(ZEROS(2), ONES(2, 1), ONES(3)), "cov_diag must be"),
    (lambda: D.LowRankMultivariateNormal(t(0.0), ONES(2, 1), ONES(2)), "loc must be at least"),
    (lambda: D.LowRankMultivariateNormal(ZEROS(3, 2), ONES(2, 2, 1), ONES(2)), "Incompatible batch shapes"),
    (lambda: D.Wishart(t(0.3), EYE), "greater than ndim - 1"),
    (lambda: D.Wishart(t(3.0), ONES(2)), "at least two-dimensional"),
    (lambda: D.LKJCholesky(1), "greater than or equal to 2"),
    (lambda: D.Distribution.set_default_validate_args(3), "True or False"),
]


@pytest.mark.parametrize("number", range(len(VALUE_ERRORS)))
def test_misuse_is_a_value_error(number):
    call, message = VALUE_ERRORS[number]
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_not_defined_is_not_implemented():
    for call in (
        lambda: D.Poisson(1.0).rsample(),
        lambda: D.Gamma(1.0, 1.0).icdf(t(0.5)),
        lambda: D.StudentT(1.0).cdf(t(0.5)),
        lambda: D.Poisson(1.0).entropy(),
        lambda: D.Multinomial(t(3), ONES(3)),
        lambda: D.Binomial(t([3.0, 2.0]), ONES(2)).enumerate_support(),
        lambda: D.Binomial(t([3.0, 2.0]), ONES(2)).entropy(),
        lambda: D.Independent(D.Bernoulli(ONES(2) / 2), 1).enumerate_support(),
        lambda: D.Normal(0.0, 1.0).enumerate_support(),
        lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0)),
        lambda: D.kl_divergence(D.LogNormal(0.0, 1.0), D.HalfNormal(1.0)),
        lambda: D.kl_divergence(D.Cauchy(0.0, 1.0), D.StudentT(1.0)),
        lambda: D.kl_divergence(D.Binomial(2, t(0.5)), D.Binomial(3, t(0.5))),
        lambda: D.Cauchy(0.0, 1.0, validate_args=False).expand([2]).enumerate_support(),
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(AssertionError, match="Exactly one of"):
        D.Wishart(3.0)
    with pytest.raises(TypeError, match="class of distributions but got 3"):
        D.register_kl(3, D.Normal)


def test_validation_can_be_turned_off():
    d = D.Normal(0.0, -1.0, validate_args=False)
    assert d.expand([2])._validate_args is False
    assert math.isnan(d.log_prob(t(math.nan)).item())
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(t(2.0)).item() == -math.inf
    assert D.Uniform(0.0, 1.0).log_prob(t(1.0)).item() == -math.inf
    try:
        D.Distribution.set_default_validate_args(False)
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Normal(0.0, -1.0)


def test_own_subclasses():
    class Shifted(D.Normal):
        def __init__(self):
            super().__init__(1.0, 2.0)

    assert repr(Shifted()) == "Shifted(loc: 1.0, scale: 2.0)"
    with pytest.raises(NotImplementedError, match="custom .expand"):
        Shifted().expand([2])

    class Named(D.Normal):
        pass

    assert type(Named(0.0, 1.0).expand([2])) is Named

    class Tent(D.Distribution):
        arg_constraints = {"width": C.positive}
        support = C.real
        has_rsample = True

        def __init__(self, width, validate_args=None):
            (self.width,) = D.utils.broadcast_all(width)
            super().__init__(self.width.shape, validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Tent, _instance)
            new.width = self.width.expand(batch_shape)
            super(Tent, new).__init__(strata.Size(batch_shape), validate_args=False)
            return new

        def rsample(self, sample_shape=()):
            shape = self._extended_shape(sample_shape)
            return self.width * (strata.rand(shape) - strata.rand(shape))

        def log_prob(self, value):
            self._validate_sample(value)
            return (1 - (value / self.width).abs()).log() - self.width.log()

    tent = Tent(2.0).expand((3,))
    assert tuple(tent.sample((2,)).shape) == (2, 3) and tuple(tent.log_prob(t(0.5)).shape) == (3,)
    assert tuple(D.Independent(tent, 1).log_prob(ZEROS(3)).shape) == ()
    with pytest.raises(NotImplementedError):
        D.kl_divergence(tent, tent)

    @D.register_kl(Tent, Tent)
    def tents(p, q):
        return p.width * 0

    assert D.kl_divergence(tent, tent).tolist() == [0, 0, 0]
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        D.Distribution()


def test_ambiguous_divergences_warn():
    class Left(D.Normal):
        pass

    class Right(D.Normal):
        pass

    D.register_kl(Left, D.Normal)(lambda p, q: 1)
    D.register_kl(D.Normal, Right)(lambda p, q: 2)
    with pytest.warns(RuntimeWarning, match="Ambiguous"):
        assert D.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == 1


def test_deprecated_sample_n_warns():
    with pytest.warns(FutureWarning, match="sample_n"):
        assert tuple(D.Normal(0.0, 1.0).sample_n(2).shape) == (2,)


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16, strata.bfloat16])
def test_dtypes_of_parameters_are_those_of_samples(dtype):
    half = strata.full((3,), 0.5, dtype=dtype)
    for d in (
        D.Normal(half, half),
        D.Gamma(half, half),
        D.Beta(half, half),
        D.Dirichlet(half),
        D.Poisson(half),
        D.Binomial(4, half),
        D.Bernoulli(half),
        D.Laplace(half, half),
        D.StudentT(half + 3),
        D.Exponential(half),
        D.Geometric(half),
        D.Uniform(half - half, half),
        D.OneHotCategorical(half),
        D.NegativeBinomial(half, half),
        D.LogNormal(half, half),
    ):
        x = d.sample((4,))
        assert x.dtype == dtype, d
        assert d.log_prob(x).dtype == dtype, d
    assert D.Normal(0, 1).sample().dtype == strata.get_default_dtype()
    assert D.Normal(1.0, half).loc.dtype == dtype


@pytest.mark.parametrize("batch", [(0,), (1,), (2, 0), (3, 1)])
def test_batch_shapes_with_zero_and_one(batch):
    ones = ONES(batch)
    wide = ONES((*batch, 3))
    for d in (
        D.Normal(ones, 1.0),
        D.Gamma(ones, ones),
        D.Bernoulli(ones / 2),
        D.Categorical(wide),
        D.OneHotCategorical(wide),
        D.Dirichlet(wide),
        D.Multinomial(4, wide),
        D.MultivariateNormal(wide, strata.eye(3)),
        D.LowRankMultivariateNormal(wide, ONES(3, 2), ONES(3)),
        D.LogisticNormal(wide, wide),
        D.Independent(D.Normal(wide, 1.0), 1),
        D.MixtureSameFamily(D.Categorical(wide), D.Normal(wide, 1.0)),
        D.LKJCholesky(3, ones),
        D.VonMises(ones, ones),
        D.Wishart(ones + 4, strata.eye(3)),
    ):
        x = d.sample((2,))
        assert tuple(d.batch_shape) == batch and tuple(x.shape) == (2, *batch, *d.event_shape), d
        assert tuple(d.log_prob(x).shape) == (2, *batch), d


def test_policy_gradients_flow_through_log_prob():
    logits = strata.zeros(4, 3, requires_grad=True)
    d = D.Categorical(logits=logits)
    action = d.sample()
    (-d.log_prob(action) * t([1.0, -1.0, 2.0, 0.5])).sum().backward()
    one_hot = np.eye(3)[action.numpy()]
    expected = (1 / 3 - one_hot) * np.array([[1.0], [-1.0], [2.0], [0.5]])
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-6, atol=1e-7)


def test_straight_through_gradients_are_those_of_the_probabilities():
    logits = strata.randn(3, dtype=strata.float64, requires_grad=True)
    weights = t([1.0, 2.0, 3.0]).double()
    sample = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(sample.detach().round().tolist()) == [0, 0, 1]
    (found,) = strata.autograd.grad((sample * weights).sum(), logits)
    (expected,) = strata.autograd.grad((logits.softmax(-1) * weights).sum(), logits)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def test_log_probabilities_have_correct_gradients():
    for make, x in (
        (lambda a, b: D.Normal(a, b), 0.3),
        (lambda a, b: D.Gamma(a, b), 0.7),
        (lambda a, b: D.Beta(a, b), 0.4),
        (lambda a, b: D.StudentT(a, 0.2, b), 0.7),
        (lambda a, b: D.FisherSnedecor(a, b), 0.7),
        (lambda a, b: D.Kumaraswamy(a, b), 0.4),
        (lambda a, b: D.Weibull(a, b), 0.4),
        (lambda a, b: D.VonMises(a, b), 0.4),
        (lambda a, b: D.NegativeBinomial(a, logits=b), 3.0),
        (lambda a, b: D.GeneralizedPareto(0.1, a, b), 0.4),
        (lambda a, b: D.MultivariateNormal(strata.stack([a, b]), strata.eye(2).double()), [0.1, 0.2]),
    ):
        a, b = (strata.tensor(v, dtype=strata.float64, requires_grad=True) for v in (1.3, 0.8))
        point = strata.tensor(x, dtype=strata.float64)
        assert strata.autograd.gradcheck(lambda p, q, make=make, point=point: make(p, q).log_prob(point), (a, b))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_moments_of_samples(shape):
    wide = strata.full(shape, 0.0, dtype=strata.float64)
    strata.manual_seed(12)
    for d in (
        D.Normal(wide + 1, 2.0),
        D.Laplace(wide + 1, 2.0),
        D.Gumbel(wide + 1, 2.0),
        D.Exponential(wide + 2),
        D.Gamma(wide + 2, 3.0),
        D.Beta(wide + 2, 3.0),
        D.Chi2(wide + 3),
        D.StudentT(wide + 9),
        D.FisherSnedecor(wide + 4, 20.0),
        D.Uniform(wide - 1, 2.0),
        D.HalfNormal(wide + 2),
        D.LogNormal(wide, 0.4),
        D.InverseGamma(wide + 9, 2.0),
        D.Kumaraswamy(wide + 2, 3.0),
        D.Pareto(wide + 1, 9.0),
        D.Weibull(wide + 1, 2.0),
        D.GeneralizedPareto(wide, 1.0, 0.1),
        D.ContinuousBernoulli(wide + 0.3),
        D.Bernoulli(wide + 0.3),
        D.Binomial(9, wide + 0.3),
        D.Geometric(wide + 0.3),
        D.NegativeBinomial(wide + 3.5, wide + 0.4),
        D.Poisson(wide + 4),
        D.Multinomial(5, (wide + 1).unsqueeze(-1).expand((*shape, 4))),
        D.Dirichlet((wide + 1).unsqueeze(-1).expand((*shape, 4))),
        D.OneHotCategorical((wide + 1).unsqueeze(-1).expand((*shape, 4))),
        D.MultivariateNormal(wide.unsqueeze(-1).expand((*shape, 2)), t([[2.0, 0.5], [0.5, 1.0]]).double()),
        D.LowRankMultivariateNormal(
            wide.unsqueeze(-1).expand((*shape, 2)), t([[1.0], [-0.5]]).double(), t([0.5, 0.25]).double()
        ),
        D.Wishart(wide + 5, t([[2.0, 0.5], [0.5, 1.0]]).double()),
        D.MixtureSameFamily(
            D.Categorical(t([0.3, 0.7]).double().expand((*shape, 2))),
            D.Normal(t([-1.0, 2.0]).double().expand((*shape, 2)), wide.unsqueeze(-1) + 0.5),
        ),
    ):
        x = d.sample((60_000,))
        spread = d.stddev.numpy()
        assert abs((x.mean(0).numpy() - d.mean.numpy()) / spread).max() < 0.02, d
        assert abs(x.var(0).numpy() / d.variance.numpy() - 1).max() < 0.12, d


def test_samples_of_angles_and_correlations():
    strata.manual_seed(13)
    d = D.VonMises(t(2.9).double(), t(3.0).double())
    x = d.sample((60_000,)).numpy()
    assert (x >= -math.pi).all() and (x < math.pi).all()
    mean = np.exp(1j * x).mean()
    assert abs(np.angle(mean) - 2.9) < 0.01 and abs(1 - abs(mean) - d.variance.item()) < 0.01
    factors = D.LKJCholesky(3, t(1.5).double()).sample((60_000,))
    correlation = (factors @ factors.mT).numpy()
    # Each off-diagonal element is Beta(c, c) over (-1, 1) with c = eta - 1 + n / 2: a variance of 1 / (2 c + 1).
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert abs(correlation[:, i, j].mean()) < 0.01
        assert abs(correlation[:, i, j].var() - 1 / (2 * 2.0 + 1)) < 0.01


def test_relaxed_samples_approach_discrete_ones():
    strata.manual_seed(14)
    hard = D.RelaxedBernoulli(t(0.01), probs=t([0.2, 0.8])).sample((20_000,))
    np.testing.assert_allclose(hard.mean(0).numpy(), [0.2, 0.8], atol=0.02)
    rows = D.RelaxedOneHotCategorical(t(0.01), probs=t([0.2, 0.3, 0.5])).sample((20_000,))
    np.testing.assert_allclose(rows.mean(0).numpy(), [0.2, 0.3, 0.5], atol=0.02)
    np.testing.assert_allclose(rows.sum(-1).numpy(), 1, rtol=1e-4)


def test_distributions_can_be_pickled():
    for d in (
        D.Normal(0.0, 1.0),
        D.Gumbel(0.0, 1.0),
        D.Categorical(ONES(3)),
        D.Independent(D.Normal(ZEROS(2), 1.0), 1),
    ):
        again = pickle.loads(pickle.dumps(d))
        assert repr(again) == repr(d)
        x = d.sample()
        np.testing.assert_array_equal(again.log_prob(x).numpy(), d.log_prob(x).numpy())


def test_warnings_are_not_raised_by_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
        D.kl_divergence(D.Chi2(2.0), D.Gamma(1.0, 1.0))
    with pytest.warns(UserWarning, match="Low df"):
        D.Wishart(t(1.5), EYE)


def families(device):
    def v(values):
        return strata.tensor(values, device=device)

    return [
        D.Normal(v([0.5, 1.0]), v(2.0)),
        D.Gamma(v([0.3, 40.0]), v(2.0)),
        D.Beta(v([0.5, 2.0]), v(1.5)),
        D.Dirichlet(v([0.5, 2.0, 1.0])),
        D.StudentT(v([3.0, 9.0])),
        D.Poisson(v([0.5, 70.0])),
        D.Binomial(20, v([0.1, 0.7])),
        D.NegativeBinomial(3, v([0.1, 0.7])),
        D.Bernoulli(v([0.1, 0.7])),
        D.Categorical(v([0.1, 0.7])),
        D.OneHotCategorical(v([0.1, 0.7])),
        D.Multinomial(5, v([0.1, 0.7])),
        D.Laplace(v([0.5, 1.0]), v(2.0)),
        D.Gumbel(v([0.5, 1.0]), v(2.0)),
        D.LogisticNormal(v([0.5, 1.0]), v([2.0, 1.0])),
        D.MultivariateNormal(v([0.5, 1.0]), v([[2.0, 0.5], [0.5, 1.0]])),
        D.VonMises(v([0.5, 1.0]), v([2.0, 9.0])),
        D.Uniform(v([0.5, 1.0]), v(2.0)),
        D.LKJCholesky(3, v([1.0, 2.0])),
        D.MixtureSameFamily(D.Categorical(v([0.1, 0.7])), D.Normal(v([0.5, 1.0]), v(2.0))),
    ]


@pytest.mark.parametrize("number", range(len(families("cpu"))))
def test_devices_agree(number):
    here, there = families("cpu")[number], families(DEVICE)[number]
    strata.manual_seed(15)
    x = here.sample((4,))
    strata.manual_seed(15)
    y = there.sample((4,))
    assert y.device.type == DEVICE
    np.testing.assert_allclose(y.cpu().numpy(), x.numpy(), rtol=2e-5, atol=1e-6)
    found = there.log_prob(x.to(DEVICE))
    assert found.device.type == DEVICE
    np.testing.assert_allclose(found.cpu().numpy(), here.log_prob(x).numpy(), rtol=2e-4, atol=1e-5)
    assert there.support.check(y).device.type == DEVICE
