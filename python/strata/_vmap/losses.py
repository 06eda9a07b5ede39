"""Batching rules of losses: losses of elements first, then the mean or sum over each slice."""

from .core import Tensor, decomposed, ops, padded, rule


def _reduced(loss, reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        average = size_average is None or size_average
        reduction = ("mean" if average else "sum") if reduce is None or reduce else "none"
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss.mean() if reduction == "mean" else loss.sum()


# Losses of elements, with the parameters that come before reduction.
_OF_ELEMENTS = {
    "mse_loss": ("input", "target", "size_average", "reduce", "reduction", "weight"),
    "l1_loss": ("input", "target", "size_average", "reduce", "reduction", "weight"),
    "smooth_l1_loss": ("input", "target", "size_average", "reduce", "reduction", "beta"),
    "huber_loss": ("input", "target", "reduction", "delta", "weight"),
    "soft_margin_loss": ("input", "target", "size_average", "reduce", "reduction"),
    "binary_cross_entropy": ("input", "target", "weight", "size_average", "reduce", "reduction"),
    "binary_cross_entropy_with_logits": (
        "input",
        "target",
        "weight",
        "size_average",
        "reduce",
        "reduction",
        "pos_weight",
    ),
    "poisson_nll_loss": ("input", "target", "log_input", "full", "size_average", "eps", "reduce", "reduction"),
    "kl_div": ("input", "target", "size_average", "reduce", "reduction", "log_target"),
    "hinge_embedding_loss": ("input", "target", "margin", "size_average", "reduce", "reduction"),
    "margin_ranking_loss": ("input1", "input2", "target", "margin", "size_average", "reduce", "reduction"),
}


@rule(*_OF_ELEMENTS)
def _of_elements(level, func, args, kwargs):
    given = {**dict(zip(_OF_ELEMENTS[func.__name__], args, strict=False)), **kwargs}
    how = {k: given.pop(k, None) for k in ("size_average", "reduce")}
    reduction = given.pop("reduction", "mean")
    tensors = {k: v for k, v in given.items() if isinstance(v, Tensor)}
    rank = max(level.rank(t) for t in tensors.values())
    shapes = [tuple(t.shape) for t in tensors.values()]
    whole = {k: padded(level.full(t), rank) for k, t in tensors.items()}
    full = ops["broadcast_tensors"](list(whole.values())) if len(set(shapes)) > 1 else list(whole.values())
    given.update(zip(whole, full, strict=True))
    lead = given["input"] if "input" in given else given["input1"]
    loss = level.wrap(func(**given, reduction="none"))
    with level:
        if reduction == "batchmean":
            count = lead.shape[1] if lead.dim() > 1 else 1
            return loss.sum() / count
        return _reduced(loss, reduction, **how)


def _weights(target, weight, ignore_index, dtype):
    """The weight of each target, 0 for ignored ones, and the targets with valid classes in their place."""
    kept = target != ignore_index
    safe = target.where(kept, ops["zeros_like"](target))
    if weight is None:
        return kept.to(dtype), safe
    flat = ops["index_select"](weight, 0, safe.reshape(-1)).reshape(safe.shape)
    return flat * kept.to(dtype), safe


def _class_dim(input):
    return 0 if input.dim() == 1 else 1


@decomposed("nll_loss")
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the input at the target class."""
    dim = _class_dim(input)
    factor, safe = _weights(target, weight, ignore_index, input.dtype)
    loss = -ops["gather"](input, dim, safe.unsqueeze(dim)).squeeze(dim) * factor
    if size_average is None and reduce is None and reduction == "mean":
        return loss.sum() / factor.sum()
    return _reduced(loss, reduction, size_average, reduce)


@decomposed("cross_entropy")
def _cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    dim = _class_dim(input)
    logs = ops["log_softmax"](input, dim)
    classes = input.shape[dim]
    shape = [-1] + [1] * (input.dim() - dim - 1)
    if target.is_floating_point():
        target = target * (1 - label_smoothing) + label_smoothing / classes if label_smoothing else target
        terms = logs * target
        loss = -(terms if weight is None else terms * weight.reshape(shape)).sum(dim)
        if reduction == "mean" and size_average is None and reduce is None:
            return loss.sum() / (input.numel() // classes)
        return _reduced(loss, reduction, size_average, reduce)
    if not label_smoothing:
        return nll_loss(logs, target, weight, size_average, ignore_index, reduce, reduction)
    factor, safe = _weights(target, weight, ignore_index, input.dtype)
    hard = -ops["gather"](logs, dim, safe.unsqueeze(dim)).squeeze(dim) * factor
    kept = (target != ignore_index).to(input.dtype)
    soft = -(logs if weight is None else logs * weight.reshape(shape)).sum(dim) * kept
    if reduction == "mean" and size_average is None and reduce is None:
        total = factor.sum()
        return (hard.sum() * (1 - label_smoothing) + soft.sum() * (label_smoothing / classes)) / total
    loss = hard * (1 - label_smoothing) + soft * (label_smoothing / classes)
    return _reduced(loss, reduction, size_average, reduce)


@decomposed("gaussian_nll_loss")
def _gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    import math

    if var.dim() < input.dim() and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var + (ops["clamp_min"](var, eps) - var).detach()
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@decomposed("pairwise_distance")
def _pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return ops["linalg.vector_norm"](x1 - x2 + eps, p, [-1], keepdim)


@decomposed("triplet_margin_loss")
def _triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2.0,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    near, far = _pairwise_distance(anchor, positive, p, eps), _pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops["minimum"](far, _pairwise_distance(positive, negative, p, eps))
    return _reduced((near - far + margin).clamp_min(0), reduction, size_average, reduce)


@decomposed("cosine_embedding_loss")
def _cosine_embedding_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    cosine = ops["cosine_similarity"](input1, input2, input1.dim() - 1)
    loss = ops["where"](target > 0, 1 - cosine, (cosine - margin).clamp_min(0))
    return _reduced(loss, reduction, size_average, reduce)
