"""What functions do with masked tensors."""

from ._tensor import MaskedTensor, Tensor, _object, ops

_UNARY = frozenset(
    """abs acos acosh angle asin asinh atan atanh bitwise_not ceil clamp cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1
    floor frac isnan lgamma log log10 log1p log2 logit nan_to_num neg positive pow rad2deg reciprocal relu round rsqrt sgn
    sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc gelu silu elu leaky_relu softplus logical_not""".split()
)
_BINARY = frozenset(
    """add atan2 bitwise_and bitwise_or bitwise_xor div divide eq floor_divide fmax fmin fmod ge greater gt hypot le less
    logaddexp lt maximum minimum mul multiply ne nextafter pow remainder rsub sub subtract true_divide __rsub__ __rtruediv__
    __rpow__ __and__ __or__ __xor__ logical_and logical_or logical_xor""".split()
)
_SHAPES = frozenset(
    """reshape view flatten permute transpose t unsqueeze squeeze expand movedim select narrow __getitem__ contiguous T mT
    unflatten""".split()
)
_PIECES = frozenset("chunk split unbind".split())


def run(name, func, args, kwargs):
    """The result of a function that was called with masked tensors."""
    if name in _UNARY | _BINARY:
        return _pointwise(name, func, args, kwargs)
    if name in _SHAPES:
        x, *rest = args
        rest = [r for r in rest if r is not MaskedTensor]  # a property has the class
        return _object(func(x._held, *rest, **kwargs), func(x._mask, *rest, **kwargs))
    if name in _PIECES:
        x, *rest = args
        pairs = zip(func(x._held, *rest, **kwargs), func(x._mask, *rest, **kwargs), strict=True)
        return tuple(_object(d, m) for d, m in pairs)
    handler = HANDLERS.get(name)
    if handler is None or kwargs.get("out") is not None:
        raise NotImplementedError(f"{name} is not available for masked tensors; use to_tensor(value) or get_data()")
    return handler(*args, **kwargs)


def _pointwise(name, func, args, kwargs):
    masks = [x._mask for x in args if isinstance(x, MaskedTensor)]
    if len(masks) == 2 and (masks[0].shape != masks[1].shape or not bool((masks[0] == masks[1]).all())):
        raise ValueError(f"{name}: the masks of two masked tensors must match; use to_tensor(value) for one of them")
    if any(isinstance(x, Tensor) and not isinstance(x, MaskedTensor) and x.dim() for x in args):
        raise TypeError(f"{name}: a masked tensor and a plain one; use as_masked_tensor(other, mask)")
    data = func(*[x._held if isinstance(x, MaskedTensor) else x for x in args], **kwargs)
    return _object(data, masks[0])


def _reduction(name):
    def reduce(input, dim=None, keepdim=False, *, dtype=None, **options):
        from .. import masked

        value = getattr(masked, name)(input._held, dim, keepdim=keepdim, dtype=dtype, mask=input._mask, **options)
        dims = list(range(input.dim())) if dim is None or dim in ((), []) else dim
        found = input._mask.any(dims, keepdim) if input.dim() else input._mask
        return _object(value, found)

    return reduce


def _along(name):
    def run_along(input, dim, dtype=None):
        from .. import masked

        return _object(getattr(masked, name)(input._held, dim, dtype=dtype, mask=input._mask), input._mask)

    return run_along


def _where(condition, input, other):
    if not isinstance(condition, Tensor) or not all(isinstance(x, MaskedTensor) for x in (input, other)):
        raise TypeError("where: expected a condition and two masked tensors")
    plain = condition._held if isinstance(condition, MaskedTensor) else condition
    return _object(ops["where"](plain, input._held, other._held), ops["where"](plain, input._mask, other._mask))


HANDLERS = {
    **{n: _reduction(n) for n in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "var", "std")},
    **{n: _along(n) for n in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")},
    "where": _where,
    "to": MaskedTensor.to,
    "clone": MaskedTensor.clone,
    "detach": MaskedTensor.detach,
}
