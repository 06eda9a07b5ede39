"""What functions do with nested tensors one component after the other: those of irregular sizes, and strided ones whose packed
rows cannot be computed at once."""

from ._functions import POINTWISE, refuse
from ._irregular import IrregularNestedTensor, from_components
from ._tensor import NestedTensor, Tensor, ops


def _is(x):
    return isinstance(x, NestedTensor)


def run(name, func, args, kwargs):
    """The result of a function that was called with nested tensors, one of which is irregular."""
    if kwargs.get("out") is not None:
        refuse(f"{name}(out=)")
    if name in POINTWISE:
        return _pointwise(name, func, args, kwargs)
    handler = METHODS.get(name) or HANDLERS.get(name)
    if handler is None:
        refuse(name)
    return handler(*args, **kwargs)


def _pointwise(name, func, args, kwargs):
    given = [x for x in (*args, *kwargs.values()) if _is(x)]
    like = next(x for x in given if isinstance(x, IrregularNestedTensor))

    def one(x):
        if _is(x):
            if getattr(x, "_sizes", None) != like._sizes:
                raise RuntimeError(f"{name}: expected nested tensors with components of equal sizes")
            return x._held
        if isinstance(x, Tensor) and x.numel() != 1:
            refuse(name, f"of a nested tensor and a dense one of shape {list(x.shape)} is not available")
        return x.reshape([]) if isinstance(x, Tensor) else x

    out = func(*[one(x) for x in args], **{k: one(x) for k, x in kwargs.items()})
    if not isinstance(out, Tensor):  # x == None
        return out
    return args[0] if name.endswith("_") and not name.endswith("__") else like._with(out)


def _inner(name, x, dim):
    """A dimension of the components for one of the nested tensor."""
    if not -x.dim() <= dim < x.dim():
        raise IndexError(f"{name}: dim {dim} is out of range for a nested tensor of {x.dim()} dimensions")
    place = dim % x.dim()
    if place == 0:
        refuse(name, "over the batch is not available")
    return place - 1


def _each(input, function):
    return from_components([function(p) for p in input.unbind()])


def _along(name):
    """A function with a dimension after its input."""

    def call(input, dim, *args, **kwargs):
        at = _inner(name, input, dim)
        return _each(input, lambda p: ops[name](p, at, *args, **kwargs))

    return call


def _softmax(name):
    def call(input, dim=None, dtype=None, **_):
        if dim is None:
            raise RuntimeError(f"{name}: a nested tensor needs a dim")
        return _along(name)(input, dim, dtype)

    return call


def _linear(input, weight, bias=None):
    return _each(input, lambda p: ops["nn.functional.linear"](p, weight, bias))


def _norm_layer(name):
    def call(input, normalized_shape, *args, **kwargs):
        return _each(input, lambda p: ops[name](p, normalized_shape, *args, **kwargs))

    return call


def matmul(input, other):
    """Products of the components of two nested tensors, or of each component and a matrix."""
    for t, where in ((input, "left"), (other, "right")):
        if not _is(t) and (where == "left" or t.dim() != 2):
            refuse("matmul", "is available for two nested tensors, or for one and a matrix")
    if not _is(other):
        return _each(input, lambda p: p @ other)
    if len(input) != len(other):
        raise RuntimeError(f"matmul: expected nested tensors of one length, got {len(input)} and {len(other)}")
    return from_components([a @ b for a, b in zip(input.unbind(), other.unbind(), strict=True)])


def _attention(query, key, value, *args, **kwargs):
    if not all(_is(t) and t.dim() == 4 for t in (query, key, value)) or not len(query) == len(key) == len(value):
        refuse("scaled_dot_product_attention", "expects nested tensors [batch, heads, lengths, size] of one batch")
    attend = ops["nn.functional.scaled_dot_product_attention"]
    parts = zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
    return from_components([attend(q, k, v, *args, **kwargs) for q, k, v in parts])


def _transpose(input, dim0, dim1):
    a, b = (_inner("transpose", input, d) for d in (dim0, dim1))
    return _each(input, lambda p: p.transpose(a, b))


def _unsqueeze(input, dim):
    place = dim % (input.dim() + 1)
    if place == 0:
        refuse("unsqueeze", "at dim 0 is not available")
    return _each(input, lambda p: p.unsqueeze(place - 1))


def _flatten(input, start_dim=0, end_dim=-1):
    first, last = _inner("flatten", input, start_dim), _inner("flatten", input, end_dim)
    return _each(input, lambda p: p.flatten(first, last))


def _pieces(name):
    def call(input, size, dim=0):
        at = _inner(name, input, dim)
        pieces = [ops[name](p, size, at) for p in input.unbind()]
        if len({len(p) for p in pieces}) != 1:
            raise RuntimeError(f"{name}: the components have different numbers of pieces along dim {dim}")
        return tuple(from_components(list(group)) for group in zip(*pieces, strict=True))

    return call


def _cat(tensors, dim=0):
    if not all(_is(t) for t in tensors):
        refuse("cat", "of nested and dense tensors is not available")
    if dim == 0:
        return from_components([p for t in tensors for p in t.unbind()])
    at = _inner("cat", tensors[0], dim)
    groups = zip(*[t.unbind() for t in tensors], strict=True)
    return from_components([ops["cat"](list(group), at) for group in groups])


def _getitem(input, index):
    if isinstance(index, int):
        return input.unbind()[index]
    if index is Ellipsis:
        return input
    if isinstance(index, tuple) and index and isinstance(index[0], int):
        return input.unbind()[index[0]][index[1:]]
    if isinstance(index, tuple) and index and isinstance(index[0], slice) and index[0] == slice(None):
        return _each(input, lambda p: p[index[1:]])
    refuse("x[...]", f"with {index!r} is not available for nested tensors")


def _reduction(name):
    def call(input, dim=None, keepdim=False, **kwargs):
        dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
        if not dims:
            return ops[name](input._held, **kwargs)
        at = [_inner(name, input, d) for d in dims]
        return _each(input, lambda p: ops[name](p, at, keepdim, **kwargs))

    return call


def _method(name):
    return lambda input, *args, **kwargs: getattr(type(input), name)(input, *args, **kwargs)


HANDLERS = {
    "linear": _linear,
    "matmul": matmul,
    "bmm": matmul,
    "layer_norm": _norm_layer("layer_norm"),
    "rms_norm": _norm_layer("rms_norm"),
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "scaled_dot_product_attention": _attention,
    "transpose": _transpose,
    "flatten": _flatten,
    "unsqueeze": _unsqueeze,
    "chunk": _pieces("chunk"),
    "split": _pieces("split"),
    "cat": _cat,
    "__getitem__": _getitem,
    **{n: _along(n) for n in ("select", "squeeze", "narrow", "unflatten", "cumsum")},
    **{n: _reduction(n) for n in ("sum", "mean", "amax", "amin")},
}
METHODS = {
    **{n: _method(n) for n in ("to", "clone", "detach", "contiguous", "unbind", "numel", "size", "dim")},
    "__len__": len,
    "__hash__": id,
}
