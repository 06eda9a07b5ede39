"""Batching rules of views, copies, joins and conversions of shape."""

import math

from .core import RULES, Tensor, named, not_inplace, ops, padded, place, rule, with_dim, wrap_tree


def _rule_of(*names):
    def add(f):
        run = named(f)
        for name in names:
            RULES[name] = run
        return f

    return add


def _ints(values, kwargs, *names):
    """view(2, 3), view([2, 3]) or view(size=[2, 3])."""
    for name in names:
        if name in kwargs:
            values = kwargs[name]
            return [values] if isinstance(values, int) else list(values)
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return list(values[0])
    return list(values)


def _resolved(shape, held):
    """A shape with -1 replaced."""
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        total = math.prod(held.shape[1:])
        if shape.count(-1) > 1 or known == 0 or total % known:
            raise RuntimeError(f"shape '{shape}' is invalid for input of size {total}")
        shape = [total // known if n == -1 else n for n in shape]
    return shape


@rule("view")
def _view(level, func, args, kwargs):
    held = level.full(args[0])
    if "dtype" in kwargs or len(args) > 1 and not isinstance(args[1], (int, tuple, list)):
        return level.wrap(func(held, *args[1:], **kwargs))
    return level.wrap(held.view(held.shape[0], *_resolved(_ints(args[1:], kwargs, "size", "shape"), held)))


@_rule_of("reshape")
def _reshape(level, input, *shape, **kwargs):
    held = level.full(input)
    return held.reshape(held.shape[0], *_resolved(_ints(shape, kwargs, "shape", "size"), held))


@_rule_of("view_as", "reshape_as")
def _view_as(level, input, other):
    held = level.full(input)
    return (
        held.reshape(held.shape[0], *other.shape) if level.is_batched(other) else _reshape(level, input, *other.shape)
    )


@_rule_of("expand", "broadcast_to", "expand_copy")
def _expand(level, input, *size, implicit=False, **kwargs):
    size = _ints(size, kwargs, "size", "shape")
    held = padded(level.full(input), len(size))
    return held.expand(held.shape[0], *size)


@_rule_of("expand_as")
def _expand_as(level, input, other):
    return _expand(level, input, *other.shape)


@_rule_of("sum_to_size")
def _sum_to_size(level, input, *size, **kwargs):
    held, size = level.full(input), _ints(size, kwargs, "size")
    return held.sum_to_size(held.shape[0], *[1] * (held.dim() - 1 - len(size)), *size).reshape(held.shape[0], *size)


@_rule_of("permute", "permute_copy")
def _permute(level, input, *dims, **kwargs):
    held = level.full(input)
    return held.permute(0, *[place(d, held.dim() - 1) for d in _ints(dims, kwargs, "dims")])


@_rule_of("transpose", "swapaxes", "swapdims", "transpose_copy")
def _transpose(level, input, dim0, dim1):
    held = level.full(input)
    if held.dim() == 1:
        return held
    return held.transpose(place(dim0, held.dim() - 1), place(dim1, held.dim() - 1))


@_rule_of("t", "t_copy", "mT", "get mT")
def _t(level, input, *_):
    held = level.full(input)
    return held if held.dim() < 3 else held.transpose(-2, -1)


@_rule_of("adjoint", "get H", "get mH")
def _adjoint(level, input, *_):
    held = _t(level, input)
    return held.conj() if held.is_complex() else held


@_rule_of("get T")
def _all_reversed(level, input, *_):
    held = level.full(input)
    return held.permute(0, *range(held.dim() - 1, 0, -1))


@rule("get real", "get imag")
def _parts(level, func, args, kwargs):
    return level.wrap(ops["real" if func.__self__.__name__ == "real" else "imag"](args[0]._held))


@_rule_of("movedim", "moveaxis")
def _movedim(level, input, source, destination):
    held = level.full(input)

    def at(dims):
        return [place(d, held.dim() - 1) for d in ([dims] if isinstance(dims, int) else dims)]

    return held.movedim(at(source), at(destination))


@_rule_of("squeeze", "squeeze_copy")
def _squeeze(level, input, dim=None):
    held = level.full(input)
    rank = held.dim() - 1
    if dim is None:
        dims = [d for d in range(1, rank + 1) if held.shape[d] == 1]
    else:
        dims = [place(d, rank) for d in ([dim] if isinstance(dim, int) else dim)] if rank else []
    return held.squeeze([d for d in dims if held.shape[d] == 1]) if dims else held


@_rule_of("unsqueeze", "unsqueeze_copy")
def _unsqueeze(level, input, dim):
    held = level.full(input)
    return held.unsqueeze(place(dim, held.dim()))


@_rule_of("flatten")
def _flatten(level, input, start_dim=0, end_dim=-1):
    held = with_dim(level.full(input))
    return held.flatten(place(start_dim, held.dim() - 1), place(end_dim, held.dim() - 1))


@_rule_of("ravel")
def _ravel(level, input):
    return _flatten(level, input)


@_rule_of("unflatten")
def _unflatten(level, input, dim, sizes):
    held = level.full(input)
    return held.unflatten(place(dim, held.dim() - 1), sizes)


@_rule_of("narrow", "narrow_copy")
def _narrow(level, input, dim, start, length):
    held = level.full(input)
    return held.narrow(place(dim, held.dim() - 1), int(start), length)


@_rule_of("select", "select_copy")
def _select(level, input, dim, index):
    held = level.full(input)
    return held.select(place(dim, held.dim() - 1), index)


@_rule_of("slice")
def _slice(level, input, dim=0, start=None, end=None, step=1):
    held = level.full(input)
    return ops["slice"](held, place(dim, held.dim() - 1), start, end, step)


@rule("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_chunk", "unsafe_split")
def _split(level, func, args, kwargs):
    args, kwargs = list(args), dict(kwargs)
    dim = args.pop(2) if len(args) > 2 else kwargs.pop("dim", 0)
    held = level.full(args[0])
    return wrap_tree(func(held, *args[1:], **kwargs, dim=place(dim, held.dim() - 1)), level)


@rule("unbind", "unbind_copy")
def _unbind(level, func, args, kwargs):
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    held = level.full(args[0])
    return wrap_tree(func(held, place(dim, held.dim() - 1)), level)


@rule("diagonal", "linalg.diagonal", "diag_embed", "diagonal_copy")
def _diagonal(level, func, args, kwargs):
    given = {**dict(zip(("input", "offset", "dim1", "dim2"), args, strict=False)), **kwargs}
    held = level.full(given.pop("A", None) if "A" in given else given["input"])
    embed = "embed" in func.__name__
    last = embed or repr(func) == "<op linalg.diagonal>"
    rank = held.dim() - 1 + embed
    dims = [place(given.get(k, d), rank) for k, d in (("dim1", -2 if last else 0), ("dim2", -1 if last else 1))]
    run = ops["diag_embed"] if embed else ops["diagonal"]
    return level.wrap(run(held, given.get("offset", 0), *dims))


@_rule_of("diag")
def _diag(level, input, diagonal=0):
    held = level.full(input)
    run = ops["diag_embed"] if held.dim() == 2 else ops["diagonal"]
    return run(held, diagonal, -2, -1)


@_rule_of("trace")
def _trace(level, input):
    return level.full(input).diagonal(0, 1, 2).sum(-1)


@_rule_of("tril")
def _tril(level, input, diagonal=0):
    return level.full(input).tril(diagonal)


@_rule_of("triu")
def _triu(level, input, diagonal=0):
    return level.full(input).triu(diagonal)


@_rule_of("unfold", "unfold_copy")
def _unfold(level, input, dimension, size, step):
    held = with_dim(level.full(input))
    return held.unfold(place(dimension, held.dim() - 1), size, step)


@_rule_of("flip")
def _flip(level, input, *dims, **kwargs):
    held = level.full(input)
    return held.flip([place(d, held.dim() - 1) for d in _ints(dims, kwargs, "dims")])


@_rule_of("fliplr")
def _fliplr(level, input):
    return level.full(input).flip([2])


@_rule_of("flipud")
def _flipud(level, input):
    return level.full(input).flip([1])


@_rule_of("roll")
def _roll(level, input, shifts, dims=None):
    held = level.full(input)
    if dims in (None, (), []):
        return held.flatten(1).roll(shifts, 1).reshape(held.shape)
    dims = [dims] if isinstance(dims, int) else dims
    return held.roll(shifts, [place(d, held.dim() - 1) for d in dims])


@_rule_of("rot90")
def _rot90(level, input, k=1, dims=(0, 1)):
    held = level.full(input)
    return held.rot90(k, [place(d, held.dim() - 1) for d in dims])


@_rule_of("repeat")
def _repeat(level, input, *repeats, **kwargs):
    repeats = _ints(repeats, kwargs, "repeats", "size")
    return padded(level.full(input), len(repeats)).repeat(1, *repeats)


@_rule_of("tile")
def _tile(level, input, *dims, **kwargs):
    dims = _ints(dims, kwargs, "dims")
    held = padded(level.full(input), len(dims))
    return held.repeat(1, *[1] * (held.dim() - 1 - len(dims)), *dims)


@rule("repeat_interleave")
def _repeat_interleave(level, func, args, kwargs):
    given = {**dict(zip(("input", "repeats", "dim"), args, strict=False)), **kwargs}
    if isinstance(given.get("repeats"), Tensor) and level.is_batched(given["repeats"]) or "repeats" not in given:
        from .core import by_slices

        return by_slices(level, func, args, kwargs)
    held, dim = with_dim(level.full(given.pop("input"))), given.pop("dim", None)
    if dim is None:
        held, dim = held.flatten(1), 0
    return level.wrap(func(held, given.pop("repeats"), place(dim, held.dim() - 1), **given))


# --- joins ----------------------------------------------------------------------------------------------------------------


@_rule_of("cat", "concat", "concatenate")
def _cat(level, tensors, dim=0, *, axis=None):
    held = [level.full(t) for t in tensors]
    rank = max(t.dim() - 1 for t in held)
    kept = [t for t in held if not (t.dim() == 2 and t.shape[1] == 0 and rank > 1)] or held
    return ops["cat"](kept, place(dim if axis is None else axis, rank))


@_rule_of("stack")
def _stack(level, tensors, dim=0):
    held = [level.full(t) for t in tensors]
    return ops["stack"](held, place(dim, held[0].dim()))


def _joined(name, least, dim_of):
    @_rule_of(name)
    def join(level, tensors):
        held = [level.full(t) for t in tensors]
        grown = [_at_least(t, least) for t in held]
        return ops["cat"](grown, dim_of(grown[0].dim() - 1))


def _at_least(held, rank):
    """atleast_1d and so on for slices."""
    own = held.dim() - 1
    if own >= rank:
        return held
    if rank == 3 and own == 2:
        return held.unsqueeze(-1)
    if rank == 3 and own == 1:
        return held.unsqueeze(1).unsqueeze(-1)
    return padded(held, rank)


_joined("hstack", 1, lambda rank: 1 if rank == 1 else 2)
_joined("vstack", 2, lambda rank: 1)
_joined("row_stack", 2, lambda rank: 1)
_joined("dstack", 3, lambda rank: 3)


@_rule_of("column_stack")
def _column_stack(level, tensors):
    held = [level.full(t) for t in tensors]
    return ops["cat"]([t.reshape(t.shape[0], -1, 1) if t.dim() < 3 else t for t in held], 2)


@rule("atleast_1d", "atleast_2d", "atleast_3d")
def _atleast(level, func, args, kwargs):
    rank = int(func.__name__[8])
    several = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    out = tuple(level.wrap(_at_least(level.full(t), rank)) for t in several)
    return out[0] if len(out) == 1 and several is args else out


@rule("broadcast_tensors")
def _broadcast_tensors(level, func, args, kwargs):
    tensors = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    rank = max(level.rank(t) for t in tensors)
    return wrap_tree(func([padded(level.full(t), rank) for t in tensors]), level)


@rule("meshgrid")
def _meshgrid(level, func, args, kwargs):
    tensors = list(args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)
    if kwargs.get("indexing") == "xy" and len(tensors) > 1:
        tensors[:2] = tensors[1::-1]
    held = [with_dim(level.full(t)) for t in tensors]
    sizes = [t.shape[1] for t in held]
    grids = []
    for i, t in enumerate(held):
        shape = [1] * len(held)
        shape[i] = sizes[i]
        grids.append(t.reshape(t.shape[0], *shape).expand(t.shape[0], *sizes))
    if kwargs.get("indexing") == "xy" and len(tensors) > 1:
        grids[:2] = grids[1::-1]
    return tuple(level.wrap(g) for g in grids)


# --- new tensors ----------------------------------------------------------------------------------------------------------


@rule("new_zeros", "new_ones", "new_empty", "new_full")
def _new(level, func, args, kwargs):
    value = ()
    args, kwargs = list(args), dict(kwargs)
    if func.__name__ == "new_full":
        value = (args.pop(2) if len(args) > 2 else kwargs.pop("fill_value"),)
    size = _ints(args[1:], kwargs, "size")
    kwargs.pop("size", None)
    return level.wrap(func(args[0]._held, [level.size, *size], *value, **kwargs))


@rule("new_tensor")
def _new_tensor(level, func, args, kwargs):
    return func(args[0]._held, *args[1:], **kwargs)


@rule("squeeze_", "unsqueeze_", "t_", "transpose_", "resize_", "resize_as_", "set_", "as_strided_", "swapaxes_")
def _shape_inplace(level, func, args, kwargs):
    raise not_inplace(f"{func.__name__}, which changes a shape,")


@_rule_of("constant_pad_nd")
def _constant_pad(level, input, pad, value=0):
    return ops["constant_pad_nd"](level.full(input), pad, value)


@rule("pad")
def _pad(level, func, args, kwargs):
    given = {**dict(zip(("input", "pad", "mode", "value"), args, strict=False)), **kwargs}
    held, rank = level.full(given.pop("input")), level.rank(args[0]) if args else None
    if given.get("mode", "constant") == "constant":
        return level.wrap(func(held, **given))
    spatial = len(given["pad"]) // 2
    lead = held.shape[: held.dim() - spatial - 1] if rank > spatial else held.shape[: held.dim() - spatial]
    flat = held.reshape(-1, *held.shape[held.dim() - spatial - (rank > spatial) :]) if rank > spatial else held
    out = func(flat, **given)
    return level.wrap(out.reshape(*lead, *out.shape[1:]) if rank > spatial else out)
