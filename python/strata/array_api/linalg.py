"""The extension for linear algebra."""

from typing import NamedTuple

from .. import _C, _functions
from ._dtypes import promoted
from ._manipulation import broadcast_arrays
from ._reductions import max as _max
from ._reductions import sum as _sum

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

Tensor, ops = _C.Tensor, _C.ops


class eigh_result(NamedTuple):
    """What eigh() returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class qr_result(NamedTuple):
    """What qr() returns."""

    Q: Tensor
    R: Tensor


class slogdet_result(NamedTuple):
    """What slogdet() returns."""

    sign: Tensor
    logabsdet: Tensor


class svd_result(NamedTuple):
    """What svd() returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1, x2, /):
    """The matrix product."""
    return ops["matmul"](*promoted("matmul", x1, x2))


def matrix_transpose(x, /):
    """x with its last two axes exchanged."""
    if x.dim() < 2:
        raise ValueError(f"matrix_transpose: expected at least two dimensions, found {x.dim()}")
    return ops["transpose"](x, -2, -1)


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over some axes: the last ones of x1 with the first ones of x2, or a pair of sequences."""
    x1, x2 = promoted("tensordot", x1, x2)
    return _functions.tensordot(x1, x2, axes)


def vecdot(x1, x2, /, *, axis=-1):
    """The sums of conj(x1) * x2 along an axis."""
    x1, x2 = promoted("vecdot", x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: axis {axis} has {x1.shape[axis]} elements in x1 and {x2.shape[axis]} in x2")
    x1 = ops["conj_physical"](x1) if x1.dtype.is_complex else x1
    return ops["sum"](x1 * x2, (axis,), dtype=x1.dtype)


def outer(x1, x2, /):
    """The products of all pairs of elements of two vectors."""
    return ops["outer"](*promoted("outer", x1, x2))


def _next(x, n, axis):
    """The component that is n places further along an axis."""
    return ops["roll"](x, (-n,), (axis,))


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of three elements along an axis."""
    x1, x2 = promoted("cross", x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: axis {axis} must have size 3, found {x1.shape[axis]} and {x2.shape[axis]}")
    x1, x2 = broadcast_arrays(x1, x2)
    return _next(x1, 1, axis) * _next(x2, 2, axis) - _next(x1, 2, axis) * _next(x2, 1, axis)


def diagonal(x, /, *, offset=0):
    """A diagonal of each matrix, as a view."""
    return ops["diagonal"](x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal of each matrix."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cholesky(x, /, *, upper=False):
    """The lower or upper triangular factor of positive definite matrices."""
    return ops["linalg.cholesky"](x, upper=upper)


def det(x, /):
    """The determinants of square matrices."""
    return ops["linalg.det"](x)


def eigh(x, /):
    """The eigenvalues, in rising order, and eigenvectors of symmetric or Hermitian matrices."""
    return eigh_result(*ops["linalg.eigh"](x))


def eigvalsh(x, /):
    """The eigenvalues, in rising order, of symmetric or Hermitian matrices."""
    return ops["linalg.eigvalsh"](x)


def inv(x, /):
    """The inverse matrices."""
    return ops["linalg.inv"](x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of each matrix: 'fro', 'nuc', 1, 2, inf or their negatives."""
    return ops["linalg.matrix_norm"](x, ord, (-2, -1), keepdims)


def matrix_power(x, n, /):
    """The n-th power of square matrices; that of the inverses if n is negative."""
    return ops["linalg.matrix_power"](x, n)


def _times_largest(rtol, s):
    """Bounds for singular values: the largest of each matrix times rtol, a number or an array."""
    largest = _max(s, axis=-1, keepdims=True)
    return largest * (rtol.to(s.dtype).unsqueeze(-1) if isinstance(rtol, Tensor) else rtol)


def _default_rtol(x):
    return max(x.shape[-2:]) * _functions.finfo(x.dtype).eps


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are larger than rtol times the largest one."""
    s = ops["linalg.svdvals"](x)
    if s.shape[-1] == 0:
        return ops["zeros"](s.shape[:-1], dtype=_C.int64, device=x.device)
    return ops["sum"](s > _times_largest(_default_rtol(x) if rtol is None else rtol, s), (-1,))


def pinv(x, /, *, rtol=None):
    """The Moore-Penrose pseudo-inverse; singular values of at most rtol times the largest one count as 0."""
    return ops["linalg.pinv"](x, rtol=_default_rtol(x) if rtol is None else rtol)


def qr(x, /, *, mode="reduced"):
    """The factors Q, with orthonormal columns, and R, upper triangular."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', found {mode!r}")
    return qr_result(*ops["linalg.qr"](x, mode))


def slogdet(x, /):
    """The sign and the logarithm of the absolute value of the determinants."""
    return slogdet_result(*ops["linalg.slogdet"](x))


def solve(x1, x2, /):
    """The x of x1 @ x = x2, where x2 is a vector if it has one dimension, and matrices otherwise."""
    x1, x2 = promoted("solve", x1, x2)
    if x2.dim() == 1:
        return ops["linalg.solve"](x1, x2.unsqueeze(-1)).squeeze(-1)
    batch = _functions.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return ops["linalg.solve"](x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:]))


def svd(x, /, *, full_matrices=True):
    """The singular value decomposition U, S, Vh: x = U @ diag(S) @ Vh."""
    return svd_result(*ops["linalg.svd"](x, full_matrices))


def svdvals(x, /):
    """The singular values in falling order."""
    return ops["linalg.svdvals"](x)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """A norm of vectors along the given axes, or of all elements."""
    if axis == ():  # each element is a vector
        return ops["abs"](x) if ord != 0 else (x != 0).to(x.abs().dtype)
    axes = (axis,) if isinstance(axis, int) else axis
    return ops["linalg.vector_norm"](x, ord, axes, keepdims)
