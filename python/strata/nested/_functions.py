"""What functions do with nested tensors: the rows of all components are computed at once."""

from .. import _C
from ._tensor import NestedTensor, RaggedSize, Tensor, ops

POINTWISE = frozenset(
    """abs add addcdiv addcmul acos asin atan ceil clamp clamp_max clamp_min cos cosh div elu eq erf exp exp2 expm1 floor
    floor_divide fmod ge gelu gt hardsigmoid hardswish hardtanh isfinite isinf isnan le leaky_relu lerp log log10 log1p log2
    logical_and logical_not logical_or logsigmoid lt masked_fill maximum minimum mish mul nan_to_num ne neg pow reciprocal relu
    relu6 remainder round rsqrt rsub selu sgn sigmoid sign silu sin sinh softplus softsign sqrt square sub tan tanh trunc where
    dropout alpha_dropout __rsub__ __rtruediv__ __rpow__ __and__ __or__ __eq__ __ne__
    zeros_like ones_like empty_like full_like rand_like
    randn_like bernoulli add_ sub_ mul_ div_ clamp_ relu_ fill_ zero_ copy_ masked_fill_ type_as""".split()
)


def _is(x):
    return isinstance(x, NestedTensor)


def refuse(name, why="is not available for nested tensors"):
    """Raises, with what to use instead."""
    raise NotImplementedError(f"{name} {why}; use unbind(), values() or to_padded_tensor()")


def run(name, func, args, kwargs):
    """The result of a function that was called with nested tensors."""
    if kwargs.get("out") is not None:
        refuse(f"{name}(out=)")
    if name in POINTWISE:
        return _pointwise(name, func, args, kwargs)
    try:
        if name not in HANDLERS:
            refuse(name)
        return HANDLERS[name](*args, **kwargs)
    except NotImplementedError:
        from . import _components

        handler = _components.HANDLERS.get(name)
        if handler is None or _layout_of(args) != "strided":
            raise
        return handler(*args, **kwargs)


def _layout_of(args):
    """The layout of the first nested tensor among arguments, or in a list of them."""
    flat = [x for a in args for x in (a if isinstance(a, (tuple, list)) else (a,))]
    return next((x._layout for x in flat if _is(x)), None)


def _same_lengths(name, a, b):
    if a._offsets is not b._offsets and (
        a._offsets.shape != b._offsets.shape or not bool((a._offsets == b._offsets).all())
    ):
        raise RuntimeError(f"{name}: expected nested tensors of equal lengths")
    if a._ragged != b._ragged:
        refuse(name, "of tensors with different exchanged dimensions is not available")


def _rows_of(name, like, x):
    """A dense operand in the shape of packed rows: it has no dimension for the rows, or one of size 1."""
    if x.dim() == 0:
        return x
    if x.dim() == like.dim() and x.shape[0] == 1 and x.shape[like._ragged] == 1:
        x = x.squeeze(0)
        return x if like._ragged == 1 else x.transpose(0, 1)
    if x.dim() < like._held.dim() and like._ragged == 1:
        return x
    refuse(name, f"of a nested tensor and a dense one of shape {list(x.shape)} is not available")


def _pointwise(name, func, args, kwargs):
    like = next(x for x in (*args, *kwargs.values()) if _is(x))

    def one(x):
        if not isinstance(x, Tensor):
            return x
        if not _is(x):
            return _rows_of(name, like, x)
        _same_lengths(name, like, x)
        return x._held

    out = func(*[one(x) for x in args], **{k: one(x) for k, x in kwargs.items()})
    if not isinstance(out, Tensor):  # x == None
        return out
    return args[0] if name.endswith("_") and not name.endswith("__") else like._with(out)


def _plain_order(name, x):
    if x._ragged != 1:
        refuse(name, "of a nested tensor with exchanged dimensions is not available")
    return x


def _inner(name, x, dim):
    """A dimension of the packed rows for one of the nested tensor that is neither the batch nor of different sizes."""
    place = dim % x.dim() if -x.dim() <= dim < x.dim() else None
    if place is None:
        raise IndexError(f"{name}: dim {dim} is out of range for a nested tensor of {x.dim()} dimensions")
    if place in (0, x._ragged):
        refuse(name, f"over dim {dim}, the batch or that of different sizes, is not available")
    return (0 if place == 0 else place - 1) if x._ragged == 1 or place > 2 else 1


# --- layers ---------------------------------------------------------------------------------------------------------------


def _linear(input, weight, bias=None):
    return _plain_order("linear", input)._with(ops["nn.functional.linear"](input._held, weight, bias))


def _matmul(input, other):
    if not _is(input) or _is(other) or other.dim() > 2:
        refuse("matmul", "is available for a nested tensor and a matrix only")
    return _plain_order("matmul", input)._with(input._held @ other)


def _norm_layer(name):
    def run_norm(input, normalized_shape, *args, **kwargs):
        if len(list(normalized_shape)) >= _plain_order(name, input)._held.dim():
            refuse(name, "over the dimension of different sizes is not available")
        return input._with(ops[name](input._held, normalized_shape, *args, **kwargs))

    return run_norm


def _softmax(name):
    def run_softmax(input, dim=None, dtype=None):
        if dim is None:
            raise RuntimeError(f"{name}: a nested tensor needs a dim")
        return input._with(ops[name](input._held, _inner(name, input, dim), dtype))

    return run_softmax


def _embedding(input, weight, *args, **kwargs):
    return input._with(ops["nn.functional.embedding"](input._held, weight, *args, **kwargs))


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if attn_mask is not None or dropout_p:
        refuse("scaled_dot_product_attention", "of nested tensors takes no mask and no dropout")
    for t in (query, key, value):
        if not _is(t) or t._ragged != 2 or t.dim() != 4:
            refuse("scaled_dot_product_attention", "expects nested tensors [batch, heads, lengths, size]")
    if len(query) != len(key):
        raise RuntimeError(f"scaled_dot_product_attention: batches of {len(query)} queries and {len(key)} keys")
    _same_lengths("scaled_dot_product_attention", key, value)
    out = ops["nn.functional.varlen_attn"](
        query._held,
        key._held,
        value._held,
        query._offsets.to(_C.int32),
        key._offsets.to(_C.int32),
        query._longest,
        key._longest,
        scale=scale,
        window_size=[-1, 0] if is_causal else [-1, -1],
        enable_gqa=enable_gqa,
    )
    return query._with(out)


# --- shapes ---------------------------------------------------------------------------------------------------------------


def _transpose(input, dim0, dim1):
    a, b = sorted(d % input.dim() for d in (dim0, dim1))
    if (a, b) == (1, 2):
        made = input._with(input._held)
        made._ragged = 3 - input._ragged
        return made
    if a == b:
        return input
    if input._ragged == 1 and a > 1:
        return input._with(input._held.transpose(a - 1, b - 1))
    refuse("transpose", f"of dims {dim0} and {dim1} is not available")


def _view(input, *shape):
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    x = _plain_order("view", input.contiguous())
    fits = len(sizes) > 1 and sizes[0] in (len(x), -1) and (sizes[1] == -1 or isinstance(sizes[1], RaggedSize))
    if not fits:
        refuse("view", f"of a nested tensor as {sizes} is not available: keep the batch and the lengths")
    return x._with(x._held.reshape(x._held.shape[0], *sizes[2:]))


def _unflatten(input, dim, sizes):
    at = _inner("unflatten", _plain_order("unflatten", input), dim)
    return input._with(input._held.unflatten(at, sizes))


def _flatten(input, start_dim=0, end_dim=-1):
    x = _plain_order("flatten", input)
    first, last = _inner("flatten", x, start_dim), _inner("flatten", x, end_dim)
    return x._with(x._held.flatten(first, last))


def _unsqueeze(input, dim):
    place = dim % (_plain_order("unsqueeze", input).dim() + 1)
    if place < 2:
        refuse("unsqueeze", f"at dim {dim} is not available")
    return input._with(input._held.unsqueeze(place - 1))


def _squeeze(input, dim):
    return input._with(input._held.squeeze(_inner("squeeze", _plain_order("squeeze", input), dim)))


def _pieces(name):
    def split(input, size, dim=0):
        at = _inner(name, _plain_order(name, input), dim)
        return tuple(input._with(p) for p in ops[name](input._held, size, at))

    return split


def _cat(tensors, dim=0):
    first = tensors[0]
    if not all(_is(t) for t in tensors):
        refuse("cat", "of nested and dense tensors is not available")
    if dim == 0 and all(t._ragged == 1 for t in tensors):
        from . import as_nested_tensor

        return as_nested_tensor([p for t in tensors for p in t.unbind()], layout=first._layout)
    for t in tensors:
        _same_lengths("cat", first, t)
    return first._with(ops["cat"]([t._held for t in tensors], _inner("cat", _plain_order("cat", first), dim)))


def _getitem(input, index):
    if isinstance(index, int):
        return input.unbind()[index]
    if isinstance(index, tuple) and index and index[0] == slice(None) or index is Ellipsis:
        rest = index[1:] if isinstance(index, tuple) else ()
        if rest and rest[0] == slice(None) and input._ragged == 1:
            return input._with(input._held[(slice(None), *rest[1:])])
    if isinstance(index, tuple) and index and index[0] is Ellipsis and input._ragged == 1:
        kept = input._held[index]
        if kept.dim() >= 1 and kept.shape[0] == input._held.shape[0]:
            return input._with(kept)
    refuse("x[...]", f"with {index!r} is not available for nested tensors")


# --- reductions -----------------------------------------------------------------------------------------------------------


def _component_sums(x, dtype=None):
    """[batch, ...]: the sum of the rows of each component."""
    held = x._held if dtype is None else x._held.to(dtype)
    steps = x._offsets[1:] - x._offsets[:-1]
    which = ops["repeat_interleave"](ops["arange"](len(x), device=held.device), steps)
    return held.new_zeros([len(x), *held.shape[1:]]).index_add(0, which, held), steps


def _total(name):
    def reduce(input, dim=None, keepdim=False, *, dtype=None):
        dims = None if dim is None else dim if isinstance(dim, int) else dim[0] if len(dim) == 1 else tuple(dim)
        if dims is None:
            return ops[name](input._held, dtype=dtype)
        if isinstance(dims, tuple):
            refuse(name, f"over dims {dims} is not available")
        if dims % input.dim() == input._ragged == 1:
            sums, steps = _component_sums(input, dtype)
            if name == "mean":
                sums = sums / steps.reshape(-1, *[1] * (sums.dim() - 1))
            return sums.unsqueeze(1) if keepdim else sums
        return input._with(ops[name](input._held, _inner(name, input, dims), keepdim, dtype=dtype))

    return reduce


def _extreme(name):
    def reduce(input, dim=(), keepdim=False):
        if dim in ((), [], None):
            return ops[name](input._held)
        dims = dim if isinstance(dim, int) else dim[0]
        if dims % input.dim() == input._ragged == 1:
            fill = -_C.inf if name == "amax" else _C.inf
            if not input.is_floating_point():
                refuse(name, "over the lengths of integers is not available")
            return ops[name](input.to_padded_tensor(fill), 1, keepdim)
        return input._with(ops[name](input._held, _inner(name, input, dims), keepdim))

    return reduce


def _method(name):
    return lambda input, *args, **kwargs: getattr(NestedTensor, name)(input, *args, **kwargs)


HANDLERS = {
    "linear": _linear,
    "matmul": _matmul,
    "layer_norm": _norm_layer("layer_norm"),
    "rms_norm": _norm_layer("rms_norm"),
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "embedding": _embedding,
    "scaled_dot_product_attention": _attention,
    "transpose": _transpose,
    "view": _view,
    "reshape": _view,
    "unflatten": _unflatten,
    "flatten": _flatten,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "chunk": _pieces("chunk"),
    "split": _pieces("split"),
    "cat": _cat,
    "__getitem__": _getitem,
    "sum": _total("sum"),
    "mean": _total("mean"),
    "amax": _extreme("amax"),
    "amin": _extreme("amin"),
    **{n: _method(n) for n in ("to", "clone", "detach", "contiguous", "unbind", "numel", "size", "dim")},
    "__len__": len,
    "__hash__": id,
}
