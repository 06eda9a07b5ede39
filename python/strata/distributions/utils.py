"""Helpers of the distributions: broadcasting of parameters, and probabilities from logits and back."""

from numbers import Number

from .. import Size, broadcast_tensors, enable_grad, finfo, get_default_dtype, is_tensor, randn, tensor, tril_indices
from ..nn.functional import binary_cross_entropy_with_logits

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """The values as tensors of one shape. Numbers take the dtype and device of the first tensor, or the default dtype."""
    if not all(is_tensor(v) or isinstance(v, Number) for v in values):
        raise ValueError("Input arguments must all be instances of Number or Tensor.")
    like = next((v for v in values if is_tensor(v)), None)
    dtype, device = (get_default_dtype(), None) if like is None else (like.dtype, like.device)
    return broadcast_tensors(*(v if is_tensor(v) else tensor(v, dtype=dtype, device=device) for v in values))


def standard(shape, draw, like):
    """New numbers of this shape, drawn in place by the Tensor method `draw`, with the dtype and device of `like`."""
    return getattr(like.new_empty(shape), draw)()


def sum_rightmost(value, dim):
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.sum(tuple(range(-dim, 0)))


_sum_rightmost = sum_rightmost  # PyTorch's name


def _standard_normal(shape, dtype, device):
    """Normal numbers of this shape: PyTorch's name for them."""
    return randn(shape, dtype=dtype, device=device)


def size(*parts):
    """One Size from several shapes."""
    return Size([n for part in parts for n in part])


def clamp_probs(probs):
    """Probabilities moved away from 0 and 1 by the precision of their dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Logarithms of the probabilities; of their odds if there are two outcomes and the probability of one is given."""
    safe = clamp_probs(probs)
    return safe.log() - (-safe).log1p() if is_binary else safe.log()


def logits_to_probs(logits, is_binary=False):
    """The inverse of probs_to_logits, for logits with any offset."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def bernoulli_cross_entropy(logits, value):
    """-log p(value) of a Bernoulli distribution; value may be between 0 and 1."""
    return binary_cross_entropy_with_logits(logits, value, reduction="none")


def tril_matrix_to_vec(mat, diag=0):
    """The elements on and below a diagonal of a matrix, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat.reshape(size(mat.shape[:-2], (n * n,)))[..., _triangle(n, diag, mat.device)]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of tril_matrix_to_vec; the other elements are 0."""
    length = vec.shape[-1]
    n = round((-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    index = _triangle(n, diag, vec.device)
    if len(index) != length:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    flat = vec.new_zeros(size(vec.shape[:-1], (n * n,))).scatter(-1, index.expand(vec.shape), vec)
    return flat.reshape(size(vec.shape[:-1], (n, n)))


def _triangle(n, diag, device):
    """The flat indices of the elements on and below a diagonal of an n x n matrix."""
    rows, columns = tril_indices(n, n, diag, device=device)
    return rows * n + columns


class lazy_property:
    """A property that is computed when it is first read, and may be set before."""

    def __init__(self, compute):
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with enable_grad():
            value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value
