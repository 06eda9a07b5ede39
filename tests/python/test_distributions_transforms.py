"""Transforms and constraints: inverses, Jacobians against autograd, shapes, the registries, every check."""

import math
import pickle

import numpy as np
import pytest
import strata
from strata import distributions as D
from strata.distributions import constraints as C

F64 = strata.float64


def t(*values):
    return strata.tensor(values[0] if len(values) == 1 else list(values), dtype=F64)


NORMAL = D.Normal(t(0.3), t(1.2))
# transform, shape of x; elements of x are normal, or positive where the domain is.
TRANSFORMS = [
    (D.ExpTransform(), (2, 3)),
    (D.ExpTransform().inv, (2, 3)),
    (D.PowerTransform(t(2.5)), (4,)),
    (D.PowerTransform(t(-0.5)), (4,)),
    (D.PowerTransform(t([1.5, 0.5])), (3, 2)),
    (D.SigmoidTransform(), (2, 3)),
    (D.SoftplusTransform(), (2, 3)),
    (D.TanhTransform(), (2, 3)),
    (D.AffineTransform(t(0.5), t(-2.0)), (2, 3)),
    (D.AffineTransform(0.5, -2.0), (2, 3)),
    (D.AffineTransform(t([0.5, 1.0, 2.0]), t([1.0, -2.0, 3.0]), event_dim=1), (2, 3)),
    (D.AffineTransform(0.0, 2.0, event_dim=1), (2, 3)),
    (D.CorrCholeskyTransform(), (6,)),
    (D.CorrCholeskyTransform(), (2, 3)),
    (D.StickBreakingTransform(), (2, 3)),
    (D.StickBreakingTransform(), (1,)),
    (D.ReshapeTransform((2, 3), (6,)), (4, 2, 3)),
    (D.ReshapeTransform((), (1, 1)), (4,)),
    (D.IndependentTransform(D.TanhTransform(), 1), (2, 3)),
    (D.IndependentTransform(D.ExpTransform().inv, 2), (2, 3)),
    (D.ComposeTransform([D.AffineTransform(0.1, 0.7), D.TanhTransform(), D.AffineTransform(0.1, 2.0)]), (2, 3)),
    (D.ComposeTransform([D.AffineTransform(0.0, 0.5), D.StickBreakingTransform()]), (2, 3)),
    (D.ComposeTransform([D.StickBreakingTransform(), D.ReshapeTransform((4,), (2, 2))]), (2, 3)),
    (D.identity_transform, (2, 3)),
    (D.CumulativeDistributionTransform(NORMAL), (2, 3)),
    (D.CatTransform([D.ExpTransform(), D.TanhTransform()], dim=0, lengths=[1, 2]), (3, 2)),
    (D.CatTransform([D.ExpTransform(), D.identity_transform], dim=-1), (3, 2)),
    (D.StackTransform([D.ExpTransform(), D.SigmoidTransform()], dim=0), (2, 3)),
    (D.StackTransform([D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform()], dim=-1), (2, 3)),
]
IDS = [f"{transform!r}{shape}".replace("\n", "").replace(" ", "") for transform, shape in TRANSFORMS]


def point(transform, shape):
    strata.manual_seed(7)
    x = strata.randn(shape, dtype=F64)
    domain = transform.domain
    while isinstance(domain, C.independent):
        domain = domain.base_constraint
    return x.abs() + 0.1 if isinstance(domain, C.greater_than) else x


@pytest.mark.parametrize("transform, shape", TRANSFORMS, ids=IDS)
def test_inverse_and_shapes(transform, shape):
    x = point(transform, shape)
    y = transform(x)
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    assert transform.bijective
    assert bool(transform.domain.check(x).all()) and bool(transform.codomain.check(y).all())
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9, atol=1e-9)
    assert transform.inv.inv is transform or transform.inv.inv == transform
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x), -transform.log_abs_det_jacobian(x, y))
    assert transform == transform and transform != D.AbsTransform()
    if transform is not D.identity_transform:
        assert transform.inv != transform


def columns(transform, shape):
    """The map between free coordinates: of the simplex and of Cholesky factors, the dependent ones are left out."""
    codomain = transform.codomain

    def free(x):
        y = transform(x.reshape(shape))
        if codomain is C.corr_cholesky:
            return strata.cat([y[..., i, :i] for i in range(1, y.shape[-1])], -1).reshape(-1)
        if codomain is C.simplex:
            return y[..., :-1].reshape(-1)
        if y.numel() != x.numel():  # a simplex in another shape
            return y.reshape(-1, 4)[:, :-1].reshape(-1)
        return y.reshape(-1)

    return free


@pytest.mark.parametrize("transform, shape", TRANSFORMS, ids=IDS)
def test_jacobians_are_those_of_autograd(transform, shape):
    x = point(transform, shape)
    matrix = strata.autograd.functional.jacobian(columns(transform, shape), x.reshape(-1))
    found = transform.log_abs_det_jacobian(x, transform(x))
    if not isinstance(transform, D.StackTransform):  # its parts are stacked as they are, not summed
        assert tuple(found.shape) == tuple(x.shape[: x.dim() - transform.domain.event_dim])
    np.testing.assert_allclose(found.sum().item(), strata.linalg.slogdet(matrix)[1].item(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("transform, shape", TRANSFORMS, ids=IDS)
def test_caches_keep_the_last_pair(transform, shape):
    cached = transform.with_cache(1)
    assert transform.with_cache(0) is transform and cached.with_cache(1) is cached
    x = point(transform, shape)
    y = cached(x)
    if type(transform) is not D.ComposeTransform and not isinstance(transform, type(D.ExpTransform().inv)):
        assert cached(x) is y and cached.inv(y) is x
    np.testing.assert_array_equal(y.numpy(), transform(x).numpy())
    copy = pickle.loads(pickle.dumps(D.TanhTransform(cache_size=1)))
    assert copy == D.TanhTransform()


def test_transforms_that_are_not_bijective():
    x = strata.randn(2, 3, dtype=F64)
    assert not D.AbsTransform().bijective and not D.SoftmaxTransform().bijective
    np.testing.assert_array_equal(D.AbsTransform()(x).numpy(), abs(x.numpy()))
    np.testing.assert_array_equal(D.AbsTransform().inv(x.abs()).numpy(), abs(x.numpy()))
    y = D.SoftmaxTransform()(x)
    np.testing.assert_allclose(y.sum(-1).numpy(), 1)
    np.testing.assert_allclose(D.SoftmaxTransform()(D.SoftmaxTransform().inv(y)).numpy(), y.numpy())
    m = strata.randn(2, 3, 3, dtype=F64)
    for transform in (D.LowerCholeskyTransform(), D.PositiveDefiniteTransform()):
        y = transform(m)
        assert bool(transform.codomain.check(y).all())
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-9)
    for call in (lambda: D.AbsTransform().sign, lambda: D.AbsTransform().log_abs_det_jacobian(x, x)):
        with pytest.raises(NotImplementedError):
            call()


def test_signs_follow_the_slope():
    assert D.ExpTransform().sign == 1 and D.AffineTransform(0.0, -2.0).sign == -1
    assert D.AffineTransform(t(0.0), t(-2.0)).sign.item() == -1 and D.PowerTransform(t(-1.0)).sign.item() == -1
    assert D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, -1.0)]).sign == -1
    d = D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), [D.AffineTransform(1.0, -2.0)])
    x = strata.linspace(-3, 3, 7, dtype=F64)
    np.testing.assert_allclose(d.cdf(x).numpy(), D.Normal(t(1.0), t(2.0)).cdf(x).numpy(), rtol=1e-12)
    np.testing.assert_allclose(d.icdf(d.cdf(x)).numpy(), x.numpy(), rtol=1e-7, atol=1e-9)


def test_equality_and_texts():
    assert D.ExpTransform() == D.ExpTransform() and D.ExpTransform().inv == D.ExpTransform().inv
    assert D.AffineTransform(t(1.0), 2.0) == D.AffineTransform(1.0, 2.0) != D.AffineTransform(1.0, 3.0)
    assert repr(D.ExpTransform().inv) == "_InverseTransform(ExpTransform())"
    assert repr(D.IndependentTransform(D.ExpTransform(), 1)) == "IndependentTransform(ExpTransform(), 1)"
    compose = D.ComposeTransform([D.ExpTransform(), D.TanhTransform()])
    assert repr(compose) == "ComposeTransform(\n    ExpTransform(),\n    TanhTransform()\n)"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: D.ExpTransform(cache_size=2), "cache_size must be 0 or 1"),
        (lambda: D.ReshapeTransform((2,), (3,)), "different numbers of elements"),
        (lambda: D.ReshapeTransform((2, 3), (6,)).forward_shape((2,)), "Too few dimensions"),
        (lambda: D.ReshapeTransform((2, 3), (6,)).forward_shape((2, 2)), "Shape mismatch"),
        (lambda: D.CorrCholeskyTransform().forward_shape((4,)), "not a flattened lower-diagonal number"),
        (lambda: D.CorrCholeskyTransform().inverse_shape((3, 4)), "not square"),
        (lambda: D.StickBreakingTransform().forward_shape(()), "Too few dimensions"),
        (lambda: D.IndependentTransform(D.ExpTransform(), 1)(t(1.0)), "Too few dimensions"),
        (lambda: D.ReshapeTransform((2,), (1, 2)).event_dim, "domain.event_dim or .codomain.event_dim"),
        (lambda: D.utils.vec_to_tril_matrix(t([1.0, 2.0])), "lower triangular part"),
        (lambda: D.utils.tril_matrix_to_vec(strata.eye(2), 2), "outside"),
    ],
)
def test_misuse_is_a_value_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_triangles_as_vectors(diag, batch):
    m = strata.randn((*batch, 4, 4), dtype=F64)
    vector = D.utils.tril_matrix_to_vec(m, diag)
    rows, columns = np.tril_indices(4, diag)
    expected = m.numpy()[..., rows, columns]
    np.testing.assert_array_equal(vector.numpy(), expected)
    np.testing.assert_array_equal(D.utils.vec_to_tril_matrix(vector, diag).numpy(), m.tril(diag).numpy())


IN, OUT = True, False
CHECKS = [
    (C.boolean, [0.0, 1.0, 0.5, math.nan], [IN, IN, OUT, OUT]),
    (C.nonnegative_integer, [0.0, 3.0, -1.0, 0.5], [IN, IN, OUT, OUT]),
    (C.positive_integer, [0.0, 3.0, 1.0], [OUT, IN, IN]),
    (C.integer_interval(1, 3), [0.0, 1.0, 2.5, 3.0, 4.0], [OUT, IN, OUT, IN, OUT]),
    (C.real, [0.0, math.inf, math.nan], [IN, IN, OUT]),
    (C.positive, [0.0, 1e-9, -1.0, math.nan], [OUT, IN, OUT, OUT]),
    (C.nonnegative, [0.0, 1.0, -1e-9], [IN, IN, OUT]),
    (C.greater_than(2.0), [2.0, 2.1], [OUT, IN]),
    (C.greater_than_eq(2.0), [2.0, 1.9], [IN, OUT]),
    (C.less_than(2.0), [2.0, 1.9], [OUT, IN]),
    (C.unit_interval, [0.0, 1.0, 1.1], [IN, IN, OUT]),
    (C.interval(-1.0, 2.0), [-1.0, 2.0, 2.1], [IN, IN, OUT]),
    (C.half_open_interval(0.0, 1.0), [0.0, 1.0], [IN, OUT]),
    (C.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.0, 0.5]], [IN, OUT, OUT]),
    (C.simplex, [[0.3, 0.7], [0.3, 0.6], [-0.1, 1.1]], [IN, OUT, OUT]),
    (C.multinomial(3), [[1.0, 2.0], [3.0, 1.0], [-1.0, 1.0]], [IN, OUT, OUT]),
    (C.real_vector, [[0.0, 1.0], [0.0, math.nan]], [IN, OUT]),
    (C.independent(C.positive, 1), [[1.0, 1.0], [0.0, 1.0]], [IN, OUT]),
    (C.lower_triangular, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]], [IN, OUT]),
    (C.lower_cholesky, [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]], [IN, OUT]),
    (C.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]], [IN, OUT]),
    (C.square, [[[1.0, 0.0], [2.0, 1.0]]], [IN]),
    (C.square, [[[1.0, 0.0, 2.0]]], [OUT]),
    (C.symmetric, [[[1.0, 2.0], [2.0, 1.0]]], [IN]),
    (C.symmetric, [[[1.0, 2.0], [1.0, 1.0]]], [OUT]),
    (C.positive_semidefinite, [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]]], [IN, OUT]),
    (C.positive_definite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]], [IN, OUT]),
    (C.cat([C.positive, C.real], dim=0, lengths=[2, 1]), [1.0, -1.0, -1.0], [IN, OUT, IN]),
    (C.stack([C.positive, C.boolean], dim=0), [[1.0, -1.0], [0.0, 0.5]], [[IN, OUT], [IN, OUT]]),
    (C.MixtureSameFamilyConstraint(C.positive), [1.0, -1.0], [IN, OUT]),
]


@pytest.mark.parametrize("constraint, values, expected", CHECKS, ids=[repr(c[0]) for c in CHECKS])
def test_every_constraint_checks(constraint, values, expected):
    found = constraint.check(t(values))
    assert found.dtype == strata.bool
    np.testing.assert_array_equal(found.numpy(), expected)


def test_every_constraint_is_checked():
    seen = {type(c[0]) for c in CHECKS}
    names = set(C.__all__) - {"Constraint", "dependent", "dependent_property", "is_dependent"}
    for name in names:
        value = getattr(C, name)
        assert (value if isinstance(value, type) else type(value)) in seen, name


def test_texts_of_constraints():
    texts = {
        C.boolean: "Boolean()",
        C.positive: "GreaterThan(lower_bound=0.0)",
        C.unit_interval: "Interval(lower_bound=0.0, upper_bound=1.0)",
        C.real_vector: "IndependentConstraint(Real(), 1)",
        C.nonnegative_integer: "IntegerGreaterThan(lower_bound=0)",
        C.interval(t(0.0), t(1.0)): "Interval(lower_bound=0.0, upper_bound=1.0)",
        C.MixtureSameFamilyConstraint(C.real): "MixtureSameFamilyConstraint(Real())",
        C.cat([C.real]): "Cat()",
    }
    for constraint, text in texts.items():
        assert repr(constraint) == text
    assert C.is_dependent(C.dependent) and C.is_dependent(D.Uniform.support) and not C.is_dependent(C.real)
    assert D.Uniform.support.event_dim == 0 and not D.Uniform.support.is_discrete
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        _ = C.dependent.event_dim
    with pytest.raises(ValueError, match="dependent"):
        C.dependent.check(t(1.0))
    with pytest.raises(TypeError, match="lower_bound"):
        C.greater_than()


REGISTERED = [
    (C.real, (2,)),
    (C.positive, (2,)),
    (C.nonnegative, (2,)),
    (C.greater_than(-3.0), (2,)),
    (C.greater_than_eq(2.0), (2,)),
    (C.less_than(-1.0), (2,)),
    (C.unit_interval, (2,)),
    (C.interval(-1.0, 3.0), (2,)),
    (C.half_open_interval(-1.0, 3.0), (2,)),
    (C.simplex, (3,)),
    (C.corr_cholesky, (3,)),
    (C.independent(C.positive, 1), (2, 3)),
    (C.cat([C.positive, C.unit_interval], dim=-1, lengths=[1, 2]), (2, 3)),
    (C.stack([C.positive, C.unit_interval], dim=0), (2, 3)),
    (C.lower_cholesky, (3, 3)),
    (C.positive_definite, (3, 3)),
    (C.positive_semidefinite, (3, 3)),
]


@pytest.mark.parametrize("constraint, shape", REGISTERED, ids=[repr(c[0]) for c in REGISTERED])
@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to], ids=["biject_to", "transform_to"])
def test_registered_transforms_reach_the_set(registry, constraint, shape):
    x = strata.randn(shape, dtype=F64)
    if registry is D.biject_to and len(shape) == 2 and shape[0] == shape[1]:
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            registry(constraint)
        return
    transform = registry(constraint)
    y = transform(x)
    assert bool(constraint.check(y).all())
    np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-8)
    assert registry is D.transform_to or transform.bijective


def test_own_constraints_can_be_registered():
    class Even(C.Constraint):
        def check(self, value):
            return value % 2 == 0

    @D.biject_to.register(Even)
    def make(constraint):
        return D.AffineTransform(0.0, 2.0)

    assert isinstance(D.biject_to(Even()), D.AffineTransform)
    with pytest.raises(TypeError, match="Constraint"):
        D.biject_to.register(int, make)
    for bad in (C.dependent, C.boolean, 1):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            D.biject_to(bad)
