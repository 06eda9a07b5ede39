"""Functions of the elements that a mask selects, and tensors with a mask, by the names of torch.masked.

A mask is true where an element counts. A reduction over no elements has the value of an empty one: 0 for a sum, -inf for amax,
NaN for a mean."""

from .. import _C
from ._tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

ops, Tensor = _C.ops, _C.Tensor

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def _parts(input, mask, dtype=None):
    """(data, mask of its shape) of a tensor or masked tensor."""
    if isinstance(input, MaskedTensor):
        mask = input.get_mask() if mask is None else mask & input.get_mask()
        input = input.get_data()
    if dtype is not None:
        input = input.to(dtype)
    if mask is None:
        mask = ops["ones_like"](input, dtype=_C.bool)
    if mask.dtype is not _C.bool:
        raise TypeError(f"expected a mask of bools, got {mask.dtype}")
    try:
        return input, mask.expand(input.shape)
    except RuntimeError:
        raise ValueError(
            f"a mask of shape {list(mask.shape)} does not broadcast to a tensor of shape {list(input.shape)}"
        ) from None


def _dims(input, dim):
    if dim is None or dim in ((), []):
        return list(range(input.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def _filled(input, mask, value):
    if not input.is_floating_point() and value in (-_C.inf, _C.inf):
        info = _limits(input.dtype)
        value = info.min if value < 0 else info.max
    return input.masked_fill(~mask, value)


def _limits(dtype):
    """The limits of an integer dtype."""
    from .._functions import iinfo

    return iinfo(dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the selected elements."""
    x, mask = _parts(input, mask, dtype)
    return ops["sum"](_filled(x, mask, 0), _dims(x, dim), keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the selected elements."""
    x, mask = _parts(input, mask, dtype)
    out = _filled(x, mask, 1)
    for d in sorted((d % max(x.dim(), 1) for d in _dims(x, dim)), reverse=True):
        out = ops["prod"](out, d, keepdim)
    return out


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest selected element."""
    x, mask = _parts(input, mask, dtype)
    return ops["amax"](_filled(x, mask, -_C.inf), _dims(x, dim), keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest selected element."""
    x, mask = _parts(input, mask, dtype)
    return ops["amin"](_filled(x, mask, _C.inf), _dims(x, dim), keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the largest selected element, in the dtype of the input."""
    x, mask = _parts(input, mask, dtype)
    return ops["argmax"](_filled(x, mask, -_C.inf), dim, keepdim).to(x.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the smallest selected element, in the dtype of the input."""
    x, mask = _parts(input, mask, dtype)
    return ops["argmin"](_filled(x, mask, _C.inf), dim, keepdim).to(x.dtype)


def _count(x, mask, dim, keepdim):
    return ops["sum"](mask.to(x.dtype), _dims(x, dim), keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the selected elements."""
    x, mask = _parts(input, mask, dtype)
    if not x.is_floating_point() and not x.is_complex():
        raise TypeError(f"masked.mean: expected a floating or complex dtype, got {x.dtype}; pass dtype=")
    return ops["sum"](_filled(x, mask, 0), _dims(x, dim), keepdim) / _count(x, mask, dim, keepdim)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the selected elements."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("masked.var: expected unbiased or correction, not both")
    x, mask = _parts(input, mask, dtype)
    correction = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    off = _filled(x - mean(x, dim, keepdim=True, mask=mask), mask, 0)
    count = _count(x, mask, dim, keepdim)
    return ops["sum"](off * off, _dims(x, dim), keepdim) / (count - correction).clamp_min(0)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the selected elements."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of the selected elements."""
    x, mask = _parts(input, mask, dtype)
    fill = _C.inf if ord == -_C.inf else 0
    return ops["linalg.vector_norm"](_filled(x, mask, fill), 2.0 if ord is None else ord, _dims(x, dim), keepdim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The selected elements over their norm, zeros elsewhere."""
    x, mask = _parts(input, mask, dtype)
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled(x, mask, 0) / length.clamp_min(eps)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median of the selected elements."""
    x, mask = _parts(input, mask, dtype)
    if not x.is_floating_point():
        raise TypeError(f"masked.median: expected a floating dtype, got {x.dtype}; pass dtype=")
    return ops["nanmedian"](_filled(x, mask, _C.nan), dim, keepdim)[0]


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp(x))) of the selected elements."""
    x, mask = _parts(input, mask, dtype)
    return ops["logsumexp"](_filled(x, mask, -_C.inf), _dims(x, dim), keepdim)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(a) + exp(b)), where elements that are not selected count as -inf."""
    (a, mask_a), (b, mask_b) = _parts(input, input_mask, dtype), _parts(other, other_mask, dtype)
    return ops["logaddexp"](_filled(a, mask_a, -_C.inf), _filled(b, mask_b, -_C.inf))


def softmax(input, dim, *, dtype=None, mask=None):
    """softmax of the selected elements, zeros elsewhere; NaN where none is selected."""
    x, mask = _parts(input, mask, dtype)
    return ops["softmax"](_filled(x, mask, -_C.inf), dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log(softmax()) of the selected elements, -inf elsewhere."""
    x, mask = _parts(input, mask, dtype)
    return ops["log_softmax"](_filled(x, mask, -_C.inf), dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of minus the selected elements."""
    x, mask = _parts(input, mask, dtype)
    return ops["softmax"](_filled(-x, mask, -_C.inf), dim)


def cumsum(input, dim, *, dtype=None, mask=None):
    """Sums of the selected elements so far."""
    x, mask = _parts(input, mask, dtype)
    return ops["cumsum"](_filled(x, mask, 0), dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Products of the selected elements so far."""
    x, mask = _parts(input, mask, dtype)
    return ops["cumprod"](_filled(x, mask, 1), dim)
