"""Gamma, Dirichlet, Poisson and binomial numbers: their distribution, edge parameters, and bits that depend on nothing
but the seed and the position."""

import math
import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
FLOATS = [strata.float64, strata.float32, strata.float16, strata.bfloat16]
log_gamma = strata._C.ops["_standard_log_gamma"]
N = 40_000


def filled(value, n=N, dtype=strata.float64):
    return strata.full((n,), value, dtype=dtype)


def distance(sample, cdf):
    """The Kolmogorov-Smirnov statistic times the square root of n: above 1.95 once in a thousand times."""
    x = np.sort(sample.numpy())
    at = cdf(strata.from_numpy(x)).numpy()
    steps = np.arange(len(x) + 1) / len(x)
    return max((steps[1:] - at).max(), (at - steps[:-1]).max()) * math.sqrt(len(x))


def chi_square(sample, log_probability):
    """Pearson's statistic over cells with at least 20 expected numbers, minus its mean, in standard deviations."""
    values = sample.numpy()
    grid = np.arange(values.min(), values.max() + 1)
    expected = len(values) * np.exp([log_probability(k) for k in grid])
    found = np.bincount((values - grid[0]).astype(np.int64), minlength=len(grid))
    cells = expected >= 20
    terms = (found[cells] - expected[cells]) ** 2 / expected[cells]
    rest = len(values) - expected[cells].sum()
    if rest > 20:
        terms = np.append(terms, (found[~cells].sum() - rest) ** 2 / rest)
    return (terms.sum() - len(terms)) / math.sqrt(2 * len(terms))


@pytest.mark.parametrize("shape", [0.05, 0.4, 0.999, 1.0, 1.5, 4.0, 30.0, 700.0])
def test_gamma_numbers_have_the_gamma_distribution(shape):
    strata.manual_seed(1)
    sample = strata._standard_gamma(filled(shape))
    assert distance(sample, lambda x: strata.special.gammainc(strata.full_like(x, shape), x)) < 1.7


@pytest.mark.parametrize("shape", [1e-5, 0.01, 0.4, 3.0])
def test_logarithms_of_gamma_numbers(shape):
    strata.manual_seed(2)
    logs = log_gamma(filled(shape))
    if shape >= 0.01:
        plain = logs.exp()
        inside = plain > 1e-300
        want = strata.special.gammainc(strata.full_like(plain, shape), plain)
        u = np.sort(want[inside].numpy())
        assert abs(u.mean() - (1 + u.min()) / 2) < 0.01
    # For a small shape, -shape * log x is almost exponential.
    if shape <= 0.01:
        assert distance(-logs * shape, lambda x: 1 - (-x.clamp(min=0)).exp()) < 1.7 + 400 * shape
    assert bool(logs.isfinite().all())


@pytest.mark.parametrize("shape", [1e6, 1e9, 1e15])
def test_gamma_numbers_of_large_shapes_are_almost_normal(shape):
    strata.manual_seed(3)
    z = (strata._standard_gamma(filled(shape)) - shape) / math.sqrt(shape)
    assert distance(z, strata.special.ndtr) < 1.9
    assert bool(strata._standard_gamma(filled(1e305, 3)).eq(1e305).all())


@pytest.mark.parametrize("rate", [0.01, 0.7, 3.0, 9.99, 10.0, 12.5, 60.0, 2000.0])
def test_poisson_numbers_have_the_poisson_distribution(rate):
    strata.manual_seed(4)
    sample = strata.poisson(filled(rate))
    assert abs(chi_square(sample, lambda k: k * math.log(rate) - rate - math.lgamma(k + 1))) < 3.5


@pytest.mark.parametrize("rate", [1e7, 1e12, 1e15])
def test_poisson_numbers_of_large_rates_are_almost_normal(rate):
    strata.manual_seed(5)
    z = (strata.poisson(filled(rate)) - rate) / math.sqrt(rate)
    assert distance(z, strata.special.ndtr) < 1.9


@pytest.mark.parametrize(
    "count, chance",
    [(1, 0.3), (5, 0.5), (20, 0.05), (20, 0.97), (40, 0.25), (40, 0.75), (100, 0.5), (1000, 0.011), (5000, 0.99)],
)
def test_binomial_numbers_have_the_binomial_distribution(count, chance):
    def log_probability(k):
        ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        return ways + k * math.log(chance) + (count - k) * math.log1p(-chance)

    strata.manual_seed(6)
    sample = strata.binomial(filled(float(count)), filled(chance))
    assert bool((sample >= 0).all() and (sample <= count).all())
    assert abs(chi_square(sample, log_probability)) < 3.5


def test_binomial_numbers_of_many_trials():
    strata.manual_seed(7)
    for count, chance in ((1e12, 0.3), (1e15, 1e-9)):
        spread = math.sqrt(count * chance * (1 - chance))
        z = (strata.binomial(filled(count), filled(chance)) - count * chance) / spread
        assert distance(z, strata.special.ndtr) < 1.9
    rare = strata.binomial(filled(1e15), filled(3e-15))  # almost a Poisson number
    assert abs(chi_square(rare, lambda k: k * math.log(3) - 3 - math.lgamma(k + 1))) < 3.5


def test_dirichlet_numbers_are_beta_distributed():
    strata.manual_seed(8)
    c = strata.tensor([0.5, 1.0, 2.5], dtype=strata.float64)
    sample = strata._sample_dirichlet(c.expand(N, 3))
    np.testing.assert_allclose(sample.sum(-1).numpy(), 1, rtol=1e-14)
    np.testing.assert_allclose(sample.mean(0).numpy(), c.numpy() / 4, atol=0.005)
    # The second has the distribution Beta(1, 3): 1 - (1 - x)^3.
    assert distance(sample[:, 1], lambda x: 1 - (1 - x) ** 3) < 1.7


def test_dirichlet_numbers_of_tiny_concentrations_are_corners():
    strata.manual_seed(9)
    for dtype in FLOATS:
        sample = strata._sample_dirichlet(strata.full((2000, 4), 1e-4, dtype=dtype)).double()
        assert bool(sample.isfinite().all())
        assert sample.max(-1)[0].mean().item() > 0.999
        assert abs(sample.mean(0).numpy() - 0.25).max() < 0.04


def test_edge_parameters():
    nan, inf = math.nan, math.inf
    for dtype in FLOATS:
        tiny = strata.finfo(dtype).tiny
        shapes = strata.tensor([0.0, inf, nan, -1.0, 1e-3], dtype=dtype)
        found = strata._standard_gamma(shapes).double().tolist()
        assert found[0] == tiny and found[1] == inf and math.isnan(found[2]) and math.isnan(found[3])
        assert tiny <= found[4] < 1
        assert strata.poisson(strata.tensor([0.0, inf], dtype=dtype)).tolist() == [0.0, inf]
        count = strata.tensor([0.0, 5.0, 5.0, 5.0, -1.0, nan, 5.0, 5.7], dtype=dtype)
        chance = strata.tensor([0.5, 0.0, 1.0, 1.5, 0.5, 0.5, nan, 1.0], dtype=dtype)
        found = strata.binomial(count, chance).tolist()
        assert found[:3] == [0, 0, 5] and all(math.isnan(v) for v in found[3:7]) and found[7] == 5
    for bad in (-1.0, nan):
        with pytest.raises(RuntimeError, match="rates >= 0"):
            strata.poisson(strata.tensor([1.0, bad]))
        with pytest.raises(RuntimeError, match="rates >= 0"):
            strata.poisson(strata.tensor([1.0, bad], device=DEVICE))
    for draw in (strata._standard_gamma, strata.poisson, log_gamma, strata._sample_dirichlet):
        assert tuple(draw(strata.empty(0, 3)).shape) == (0, 3)
        with pytest.raises(RuntimeError, match="floating-point"):
            draw(strata.ones(3, dtype=strata.int64))
    assert tuple(strata.binomial(strata.ones(3, 1), strata.ones(2)).shape) == (3, 2)
    assert bool(strata._sample_dirichlet(strata.tensor([[nan, 1.0], [1.0, 1.0]]))[0].isnan().all())


def draws(device, dtype, n=3000):
    random = np.random.default_rng(0)
    size = {"dtype": dtype, "device": device}
    shape = strata.from_numpy(10 ** random.uniform(-3, 4, n)).to(**size)
    count = strata.from_numpy(np.floor(10 ** random.uniform(0, 4.5, n))).to(**size)
    chance = strata.from_numpy(random.uniform(0, 1, n) ** 3).to(**size)
    strata.manual_seed(10)
    results = [
        strata._standard_gamma(shape),
        log_gamma(shape),
        strata._sample_dirichlet(shape.reshape(-1, 3)),
        strata.poisson(shape),
        strata.binomial(count, chance),
        strata.binomial(count[:1], chance),
        strata.poisson(shape.reshape(-1, 3).mT),
        strata.rand(3, device=device),  # the stream has moved on by the same number of blocks
    ]
    return [r.cpu().double().numpy() for r in results]


@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_are_the_same_on_every_device(dtype):
    for here, there in zip(draws("cpu", dtype), draws(DEVICE, dtype), strict=True):
        np.testing.assert_array_equal(here, there)


def test_bits_do_not_depend_on_the_threads():
    before = strata.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            strata.set_num_threads(threads)
            results.append(draws("cpu", strata.float32, 30_000))
    finally:
        strata.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_element_depends_on_its_position_only():
    strata.manual_seed(11)
    mixed = strata._standard_gamma(strata.tensor([0.01, 50.0, 0.01, 2.0]))
    strata.manual_seed(11)
    equal = strata._standard_gamma(strata.full((4,), 2.0))
    assert mixed[3].item() == equal[3].item()
    strata.manual_seed(11)
    assert strata._standard_gamma(strata.full((9,), 2.0))[:4].tolist() == equal.tolist()


def test_a_generator_can_be_given():
    rate = strata.full((100,), 20.0)
    one, two = (strata.Generator().manual_seed(3) for _ in range(2))
    assert strata.poisson(rate, generator=one).tolist() == strata.poisson(rate, two).tolist()
    assert strata.poisson(rate, one).tolist() != strata.poisson(rate, strata.Generator().manual_seed(3)).tolist()


def test_gradients_are_those_of_the_record():
    a = strata.tensor([0.3, 2.0, 40.0], dtype=strata.float64, requires_grad=True)
    x = strata._standard_gamma(a)
    x.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), strata._standard_gamma_grad(a.detach(), x.detach()).numpy())
    rate = strata.tensor([3.0], requires_grad=True)
    strata.poisson(rate).sum().backward()
    assert rate.grad.item() == 0


def test_slopes_at_the_edges():
    nan, inf = math.nan, math.inf
    a = strata.tensor([1.0, 0.0, -1.0, nan, 2.0, 2.0, 1e20, 3.0], dtype=strata.float64)
    x = strata.tensor([0.0, 1.0, 1.0, 1.0, nan, -1.0, 1e20, inf], dtype=strata.float64)
    found = strata._standard_gamma_grad(a, x).tolist()
    assert found[0] == 0 and found[6] == 1
    assert all(math.isnan(v) for v in found[1:6])
    huge = strata._standard_gamma_grad(strata.tensor(2.0).double(), strata.tensor(1e15).double()).item()
    assert 0 < huge < 100
