"""Broadcasting and reductions against NumPy in float64, on generated shapes; ops that NumPy has by the same name."""

import itertools

import numpy as np
import pytest
import strata
from hypothesis import given, settings
from hypothesis import strategies as st
from strata.nn import functional as F


@st.composite
def broadcastable(draw):
    full = draw(st.lists(st.integers(0, 4), min_size=0, max_size=4))
    out = []
    for _ in range(2):
        keep = draw(st.integers(0, len(full)))
        out.append(tuple(1 if draw(st.booleans()) else n for n in full[len(full) - keep :]))
    return out


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s) for s in shapes]


BINARY = dict(
    add=np.add,
    sub=np.subtract,
    mul=np.multiply,
    div=np.divide,
    maximum=np.maximum,
    minimum=np.minimum,
    atan2=np.arctan2,
    hypot=np.hypot,
    fmod=np.fmod,
    remainder=np.remainder,
    floor_divide=np.floor_divide,
    lt=np.less,
    ge=np.greater_equal,
    logical_and=np.logical_and,
    copysign=np.copysign,
    logaddexp=np.logaddexp,
    nextafter=np.nextafter,
    heaviside=np.heaviside,
)


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=40, deadline=None)
@given(shapes=broadcastable())
def test_binary(name, shapes):
    a, b = arrays(*shapes)
    with np.errstate(all="ignore"):
        want = BINARY[name](a, b)
    got = getattr(strata, name)(strata.from_numpy(a), strata.from_numpy(b))
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)


UNARY = "abs exp exp2 expm1 log log2 log10 log1p sqrt reciprocal square sin cos tan sinh cosh tanh arcsinh arctan floor ceil trunc isnan isinf isfinite signbit sinc deg2rad rad2deg".split()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_unary(name, dtype):
    x = np.concatenate(
        [np.linspace(-5, 5, 401), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 300.0, -300.0, 1e4]]
    ).astype(dtype)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.float64))
        if want.dtype != bool:
            want = want.astype(dtype)
    got = getattr(strata, name)(strata.from_numpy(x)).numpy()
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(
        got,
        want,
        rtol=tolerance,
        atol=0
        if want.dtype == bool
        else 1e-30
        if dtype == "float64"
        else 1e-37 + (2e-6 if name in ("sin", "tan", "cos", "sinc") else 0),
    )


# Functions that NumPy does not have: strata's, and the same as a formula over float64.
FORMULAS = {
    "softsign": (F.softsign, lambda x: x / (1 + np.abs(x))),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x))),
    "hardtanh": (F.hardtanh, lambda x: np.clip(x, -1, 1)),
    "glu": (F.glu, lambda x: x[:, :20] / (1 + np.exp(-x[:, 20:]))),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_formula(name, device, dtype):
    function, formula = FORMULAS[name]
    x = np.linspace(-9, 9, 280).reshape(7, 40).astype(dtype)
    got = function(strata.from_numpy(x).to(device)).cpu().numpy()
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(got, formula(x.astype(np.float64)), rtol=tolerance, atol=tolerance)


REDUCTIONS = dict(
    sum=np.sum,
    mean=np.mean,
    prod=np.prod,
    amax=np.max,
    amin=np.min,
    var=lambda x, axis, keepdims: np.var(x, axis=axis, keepdims=keepdims, ddof=1),
    any=np.any,
    all=np.all,
)


@st.composite
def reduction(draw):
    shape = tuple(draw(st.lists(st.integers(2, 4), min_size=1, max_size=4)))
    dims = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    return (
        shape,
        tuple(d - len(shape) if draw(st.booleans()) else d for d in dims),
        draw(st.booleans()),
        draw(st.permutations(range(len(shape)))),
    )


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=60, deadline=None)
@given(case=reduction())
def test_reduction(name, case):
    shape, dims, keepdim, order = case
    if name == "prod":
        dims = dims[:1]
    a = arrays(shape)[0].transpose(order)
    want = REDUCTIONS[name](a, axis=dims, keepdims=keepdim)
    got = getattr(strata, name)(strata.from_numpy(a), dims[0] if name == "prod" else dims, keepdim=keepdim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-13)


def test_sums_of_many_floats_are_accurate():
    x = np.random.default_rng(0).random(10_000_001).astype(np.float32)
    got = strata.from_numpy(x).sum().item()
    assert abs(got - x.sum(dtype=np.float64)) <= 1e-6 * x.size * 0.5


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: x.mean(1),
        lambda x: x.softmax(1),
        lambda x: x.var(0),
        lambda x: x @ x.T,
        lambda x: x.cumsum(0),
        lambda x: x.prod(1),
        lambda x: strata.nn.functional.layer_norm(x, (300,)),
        lambda x: x.sort(0)[0],
        lambda x: x.std(),
        lambda x: x.norm(),
        lambda x: x.logsumexp(0),
    ],
)
def test_bits_do_not_depend_on_the_number_of_threads(run):
    x = strata.from_numpy(np.random.default_rng(0).standard_normal((700, 300)).astype(np.float32))
    before, results = strata.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            strata.set_num_threads(threads)
            results.append(run(x).numpy().copy())
    finally:
        strata.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_any_and_all_of_nothing():
    for dtype in (strata.bool, strata.int32, strata.float32):
        empty = strata.zeros(0, 3, dtype=dtype)
        assert not empty.any() and empty.all()
        assert empty.any(0).tolist() == [False] * 3 and empty.all(0).tolist() == [True] * 3


@pytest.mark.parametrize("repeat", [False, True])
def test_combinations(repeat):
    of = itertools.combinations_with_replacement if repeat else itertools.combinations
    for n, r in itertools.product(range(7), range(1, 7)):
        want = [list(row) for row in of(range(n), r)]
        assert strata.combinations(strata.arange(n), r, repeat).tolist() == want
        assert strata.combinations(strata.arange(n, device="meta"), r, repeat).shape == (len(want), r)
    assert strata.combinations(strata.empty(14, device="meta"), 7).shape == (3432, 7)
