"""Functions of neural networks, as in torch.nn.functional."""

from .. import _C
from .attention import multi_head_attention_forward  # noqa: F401

_ops = {
    name.removeprefix("nn.functional."): op
    for name, op in _C.ops.items()
    if name.startswith("nn.functional.") and not op.internal
}
globals().update(_ops)


# Functions whose number of results depends on a flag, or whose arguments a schema cannot express.


def _max_pool(plain, with_indices):
    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return (with_indices if return_indices else plain)(input, kernel_size, stride, padding, dilation, ceil_mode)

    pool.__name__ = plain.__name__ if hasattr(plain, "__name__") else "max_pool"
    pool.__doc__ = plain.__doc__
    return pool


max_pool1d = _max_pool(_ops["max_pool1d"], _ops["max_pool1d_with_indices"])
max_pool2d = _max_pool(_ops["max_pool2d"], _ops["max_pool2d_with_indices"])
max_pool3d = _max_pool(_ops["max_pool3d"], _ops["max_pool3d_with_indices"])


def _sizes(input, output_size, dims):
    """output_size with None replaced by the input's size."""
    sizes = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * dims
    return [input.shape[d - len(sizes)] if n is None else n for d, n in enumerate(sizes)]


def adaptive_avg_pool2d(input, output_size):
    """The mean over output_size windows of [N, C, H, W]; a size of None keeps the input's."""
    return _ops["adaptive_avg_pool2d"](input, _sizes(input, output_size, 2))


def adaptive_avg_pool3d(input, output_size):
    """The mean over output_size windows of [N, C, D, H, W]; a size of None keeps the input's."""
    return _ops["adaptive_avg_pool3d"](input, _sizes(input, output_size, 3))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest value of output_size windows of [N, C, L]."""
    both = _ops["adaptive_max_pool1d_with_indices"](input, _sizes(input, output_size, 1))
    return both if return_indices else both[0]


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The largest value of output_size windows of [N, C, H, W]; a size of None keeps the input's."""
    both = _ops["adaptive_max_pool2d_with_indices"](input, _sizes(input, output_size, 2))
    return both if return_indices else both[0]


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The largest value of output_size windows of [N, C, D, H, W]; a size of None keeps the input's."""
    both = _ops["adaptive_max_pool3d_with_indices"](input, _sizes(input, output_size, 3))
    return both if return_indices else both[0]


def _fractional_max_pool(plain, with_indices):
    def pool(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        run = with_indices if return_indices else plain
        return run(input, kernel_size, output_size, output_ratio, _random_samples=_random_samples)

    pool.__name__, pool.__doc__ = plain.__name__, plain.__doc__
    return pool


fractional_max_pool2d = _fractional_max_pool(_ops["fractional_max_pool2d"], _ops["fractional_max_pool2d_with_indices"])
fractional_max_pool3d = _fractional_max_pool(_ops["fractional_max_pool3d"], _ops["fractional_max_pool3d_with_indices"])


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log likelihood of a normal distribution of the given variance, a tensor or a number."""
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("gaussian_nll_loss: var has negative entries")
        var = _C.ops["full_like"](input, float(var))
    return _ops["gaussian_nll_loss"](input, target, var, full, eps, reduction)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance function d."""
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    distance = distance_function or _ops["pairwise_distance"]
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.ops["minimum"](far, distance(positive, negative))
    loss = _C.ops["clamp_min"](near - far + margin, 0.0)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Samples from the Gumbel-softmax distribution; one-hot samples with the soft gradient if `hard`."""
    noise = -(-_C.ops["rand_like"](logits).clamp(min=1e-20).log()).clamp(min=1e-20).log()
    soft = _ops["softmax"]((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = _C.ops["zeros_like"](logits).scatter(dim, index, 1.0)
    return one - soft.detach() + soft


for _name, _function in list(globals().items()):
    if isinstance(_function, type(_sizes)) and not _name.startswith("_"):
        globals()[_name] = _C._overridable(_function)

__all__ = [name for name in globals() if not name.startswith("_")]
