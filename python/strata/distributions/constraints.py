"""Sets of values: where the parameters of distributions and their samples are. check(value) tells which values are in.

A constraint tests each event: the last event_dim dimensions together, the others are batch dimensions.
"""

from .. import bool as bool_dtype
from .. import cat as join
from .. import finfo, is_tensor, linalg
from .. import stack as pile
from .utils import sum_rightmost

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values. is_discrete: its values are isolated; event_dim: the dimensions that belong to one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """A bool tensor of the batch dimensions: whether each event of value is in the set."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A placeholder for a set that depends on other parameters."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name):
        value = getattr(self, "_" + name)
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    is_discrete = property(lambda self: self._known("is_discrete"))
    event_dim = property(lambda self: self._known("event_dim"))

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value):
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint; read from the class, it is a dependent constraint itself."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint):
    """Whether the constraint is a placeholder that depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _Bounded(Constraint):
    """A constraint with bounds, which its repr shows by name."""

    def __repr__(self):
        bounds = ", ".join(f"{name}={_plain(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


def _plain(value):
    return value.item() if is_tensor(value) and value.dim() == 0 else value


def _bounded(name, bounds, test, is_discrete=False):
    """A class of constraints over numbers: `bounds` names its arguments, test(value, *bounds) is the check."""

    def __init__(self, *given, **named):
        values = dict(zip(bounds, given, strict=False), **named)
        if len(given) > len(bounds) or set(values) != set(bounds) or len(given) + len(named) != len(bounds):
            raise TypeError(f"{name.lstrip('_')} takes the arguments {', '.join(bounds)}")
        self.__dict__.update({bound: values[bound] for bound in bounds})

    def check(self, value):
        return test(value, *(self.__dict__[bound] for bound in bounds))

    members = {"__init__": __init__, "check": check, "is_discrete": is_discrete, "__module__": __name__}
    return type(name, (_Bounded,), members)


def _whole(value):
    return value % 1 == 0


_LOW, _HIGH = "lower_bound", "upper_bound"
_IntegerInterval = _bounded(
    "_IntegerInterval", (_LOW, _HIGH), lambda v, low, high: _whole(v) & (low <= v) & (v <= high), is_discrete=True
)
_IntegerLessThan = _bounded("_IntegerLessThan", (_HIGH,), lambda v, high: _whole(v) & (v <= high), is_discrete=True)
_IntegerGreaterThan = _bounded("_IntegerGreaterThan", (_LOW,), lambda v, low: _whole(v) & (v >= low), is_discrete=True)
_GreaterThan = _bounded("_GreaterThan", (_LOW,), lambda v, low: low < v)
_GreaterThanEq = _bounded("_GreaterThanEq", (_LOW,), lambda v, low: low <= v)
_LessThan = _bounded("_LessThan", (_HIGH,), lambda v, high: v < high)
_Interval = _bounded("_Interval", (_LOW, _HIGH), lambda v, low, high: (low <= v) & (v <= high))
_HalfOpenInterval = _bounded("_HalfOpenInterval", (_LOW, _HIGH), lambda v, low, high: (low <= v) & (v < high))


def _plain_constraint(name, test, event_dim=0, is_discrete=False):
    """A class of constraints without arguments."""
    members = {
        "check": lambda self, value: test(value),
        "event_dim": event_dim,
        "is_discrete": is_discrete,
        "__module__": __name__,
    }
    return type(name, (Constraint,), members)


def _is_square(value):
    return value.new_full(value.shape[:-2], value.dim() >= 2 and value.shape[-1] == value.shape[-2], dtype=bool_dtype)


def _is_lower_triangular(value):
    return (value.tril() == value).all(-1).all(-1)


def _is_lower_cholesky(value):
    return _is_lower_triangular(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _is_corr_cholesky(value):
    tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
    unit_rows = ((value * value).sum(-1) - 1).abs().lt(tolerance).all(-1)
    return _is_lower_cholesky(value) & unit_rows


def _is_symmetric(value):
    square = _is_square(value)
    return square & value.isclose(value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


def _is_semidefinite(value):
    symmetric = _is_symmetric(value)
    return symmetric & linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


def _is_definite(value):
    symmetric = _is_symmetric(value)
    return symmetric & linalg.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


_Real = _plain_constraint("_Real", lambda v: v == v)
_Boolean = _plain_constraint("_Boolean", lambda v: (v == 0) | (v == 1), is_discrete=True)
_OneHot = _plain_constraint(
    "_OneHot", lambda v: ((v == 0) | (v == 1)).all(-1) & v.sum(-1).eq(1), event_dim=1, is_discrete=True
)


def _is_simplex(value):
    rounding = max(1e-6, finfo(value.dtype).eps) if value.is_floating_point() else 1e-6  # of 16-bit numbers
    return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < rounding)


_Simplex = _plain_constraint("_Simplex", _is_simplex, event_dim=1)
_LowerTriangular = _plain_constraint("_LowerTriangular", _is_lower_triangular, event_dim=2)
_LowerCholesky = _plain_constraint("_LowerCholesky", _is_lower_cholesky, event_dim=2)
_CorrCholesky = _plain_constraint("_CorrCholesky", _is_corr_cholesky, event_dim=2)
_Square = _plain_constraint("_Square", _is_square, event_dim=2)
_Symmetric = _plain_constraint("_Symmetric", _is_symmetric, event_dim=2)
_PositiveSemidefinite = _plain_constraint("_PositiveSemidefinite", _is_semidefinite, event_dim=2)
_PositiveDefinite = _plain_constraint("_PositiveDefinite", _is_definite, event_dim=2)


class _Multinomial(Constraint):
    """Counts whose sum is at most the number of trials."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _IndependentConstraint(Constraint):
    """A constraint whose last batch dimensions belong to the event: all its parts must be in."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, found {type(base_constraint).__name__}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be an int >= 0, found {reinterpreted_batch_ndims!r}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return sum_rightmost((~result).to(int), self.reinterpreted_batch_ndims) == 0

    def __repr__(self):
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: that of its components, without their dimension."""

    def __init__(self, base_constraint):
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value):
        at = -1 - self.event_dim
        value = value.unsqueeze(at)
        result = self.base_constraint.check(value)
        if value.dim() < -at:
            raise ValueError(f"Expected value.dim() in {{{-at}, ...}} but got {value.dim()}")
        return result.all(-1) if result.dim() else result

    def __repr__(self):
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Joined(Constraint):
    """Constraints for consecutive parts of a dimension."""

    def __init__(self, cseq, dim):
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("cseq must be a sequence of Constraints")
        self.cseq, self.dim = list(cseq), dim

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))


class _Cat(_Joined):
    """Constraints for parts of the given lengths along dim."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.cseq)} constraints")

    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a tensor with {value.dim()} dimensions")
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return join(checks, self.dim)


class _Stack(_Joined):
    """A constraint per index of dim."""

    def __init__(self, cseq, dim=0):
        super().__init__(cseq, dim)

    @property
    def event_dim(self):
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a tensor with {value.dim()} dimensions")
        parts = [value.select(self.dim, i) for i in range(value.shape[self.dim])]
        return pile([constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
