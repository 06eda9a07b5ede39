"""Batching rules of ops that work on elements: slices are aligned from the right, the batch stays in front."""

from .. import _C
from .core import RULES, Tensor, VmapError, is_inplace, name_of, not_inplace, ops, padded, rule, wrap_tree

_NAMES = """
abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min complex conj conj_physical copysign cos cosh deg2rad digamma div
elu entr eq erf erfc erfcx erfinv exp exp2 expm1 float_power floor floor_divide fmax fmin fmod frac frexp gcd ge gelu gt hardshrink
hardsigmoid hardswish hardtanh heaviside hypot i0 i0e i1 i1e igamma igammac imag isclose isfinite isinf isnan isneginf isposinf
isreal lcm ldexp le leaky_relu lerp lgamma log log10 log1p log2 log_ndtr logaddexp logaddexp2 logical_and logical_not logical_or
logical_xor logit logsigmoid lt masked_fill maximum minimum mish mul multigammaln mvlgamma nan_to_num ndtr ndtri ne neg nextafter
polar polygamma positive pow psi rad2deg real reciprocal relu relu6 remainder resolve_conj resolve_neg round rsqrt rsub selu sgn
sigmoid sign signbit silu sin sinc sinh softplus softshrink softsign sqrt square sub tan tanh tanhshrink threshold trunc where
xlog1py xlogy zeta special.gammainc special.gammaincc special.gammaln special.expit special.round special.log_softmax_ fill zero
__rsub__ __radd__ __rmul__ __rtruediv__ __rpow__ __rfloordiv__ __rmod__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__ __pos__ __and__ __or__ __xor__ __lshift__ __rshift__
__add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __neg__ __invert__ __abs__
view_as_real view_as_complex absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh clip divide eq_ fix greater
greater_equal less less_equal multiply negative not_equal subtract true_divide sigmoid_backward tanh_backward copy
""".split()


def _types(level, tensors):
    """Slices without dimensions in a dtype that promotes as they would alone."""
    ranks = [level.rank(x) for x in tensors]
    dtypes = {x.dtype for x in tensors}
    if len(dtypes) < 2 or all(ranks):
        return None
    slices = [ops["empty"]((1,) * min(r, 1), dtype=x.dtype, device="meta") for x, r in zip(tensors, ranks, strict=True)]
    total = slices[0]
    for s in slices[1:]:  # of several dims-less operands the order does not matter
        total = ops["empty"]((1,) * max(total.dim(), s.dim()), dtype=_result_type(total, s), device="meta")
    return total.dtype


def _result_type(a, b):
    from .._functions import result_type

    return result_type(a, b)


_KEEP_TYPES = frozenset("where masked_fill copy fill".split())


def aligned(level, args, kwargs, name=""):
    """The arguments with all slices in the place of batched tensors, of one rank."""
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    rank = max(level.rank(x) for x in tensors)
    dtype = None if name in _KEEP_TYPES else _types(level, tensors)

    def one(x):
        if not isinstance(x, Tensor):
            return x
        own = level.rank(x)
        held = padded(level.held(x), rank) if level.is_batched(x) else x
        if dtype is not None and own == 0 and held.dtype is not dtype:
            held = held.to(dtype)
        return held

    return [one(x) for x in args], {k: one(x) for k, x in kwargs.items()}


def pointwise(level, func, args, kwargs):
    """Runs func on the aligned arguments."""
    name = name_of(func)
    if is_inplace(name) and not level.is_batched(args[0]):
        raise not_inplace(name)
    if len(args) == 1 and not kwargs:
        held = args[0]._held
        result = func(held)
        return args[0] if result is held else wrap_tree(result, level)
    if is_inplace(name):
        target = args[0]._held
        rank = target.dim() - 1
        if any(level.rank(x) > rank for x in (*args, *kwargs.values()) if isinstance(x, Tensor)):
            raise VmapError(f"vmap: {name}: the result has more dimensions than the tensor that it is written to")
        given = [padded(level.held(x), rank) if level.is_batched(x) else x for x in args]
        named = {k: padded(level.held(x), rank) if level.is_batched(x) else x for k, x in kwargs.items()}
        func(*given, **named)
        return args[0]
    given, named = aligned(level, args, kwargs, name)
    return wrap_tree(func(*given, **named), level)


for _name in _NAMES:
    RULES[_name] = pointwise
    RULES.setdefault(f"__i{_name[2:]}" if _name.startswith("__") else _name + "_", pointwise)


@rule("max", "min")
def _extreme(level, func, args, kwargs):
    from .reductions import reduce_one

    two = len(args) > 1 and isinstance(args[1], Tensor) or isinstance(kwargs.get("other"), Tensor)
    return (pointwise if two else reduce_one)(level, func, args, kwargs)


@rule("copy_")
def _copy(level, func, args, kwargs):
    return pointwise(level, func, args, kwargs)


@rule("prelu")
def _prelu(level, func, args, kwargs):
    x, weight = (*args, *kwargs.values())
    if level.rank(weight) and weight.numel() > 1:
        shape = (-1, *[1] * (level.rank(x) - 2)) if level.rank(x) > 1 else (-1,)
        with level:
            weight = weight.reshape(shape)
    with level:
        return _C.ops["where"](x > 0, x, x * weight)


_SAME_SHAPE = (
    "clone contiguous detach zeros_like ones_like empty_like full_like bernoulli_none nan_to_num_ detach_ alias_copy"
)


def _of_first(level, func, args, kwargs):
    """Ops of one tensor that take its shape as it is; further tensors only tell a dtype."""
    given = [level.held(x) for x in args]
    named = {k: level.held(x) for k, x in kwargs.items()}
    if not level.is_batched(args[0]):  # x.to(batched)
        return func(*given, **named)
    result = func(*given, **named)
    return args[0] if result is given[0] else level.wrap(result)


for _name in f"{_SAME_SHAPE} to type_as to_copy pin_memory requires_grad_".split():
    RULES[_name] = _of_first
