"""Batching rules of indexing: x[...], gather, scatter and their relatives."""

from .core import (
    RULES,
    Tensor,
    VmapError,
    by_slices,
    name_of,
    not_inplace,
    ops,
    padded,
    place,
    rule,
    with_dim,
)


def _expression(level, x, index):
    """An index as one entry per dimension of a slice: slices, numbers, None and tensors, without `...` and masks."""
    from .. import _C

    items = list(index) if isinstance(index, tuple) else [index]
    parts = []
    for item in items:
        if isinstance(item, (list, range)) or type(item).__module__ == "numpy" and getattr(item, "ndim", 0):
            item = _C.tensor(list(item)) if isinstance(item, (list, range)) else _C.asarray(item)
        if isinstance(item, Tensor) and item.dtype in (_C.bool, _C.uint8):
            if level.is_batched(item):
                raise VmapError(
                    "vmap: indexing with a batched mask has results of different shapes; use where() or masked_fill()"
                )
            parts += list(ops["nonzero"](item).unbind(1)) if item.dim() else [None, item]
        elif (
            isinstance(item, Tensor) and not level.is_batched(item) and item.dim() == 0 and not item.is_floating_point()
        ):
            parts.append(int(item))
        else:
            parts.append(item)
    used = sum(p is not None and p is not Ellipsis and not isinstance(p, bool) for p in parts)
    missing = level.rank(x) - used
    if missing < 0:
        raise IndexError(f"too many indices for tensor of dimension {level.rank(x)}")
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), None)
    fill = [slice(None)] * missing
    return parts + fill if at is None else parts[:at] + fill + parts[at + 1 :]


def _taken(level, x, index):
    """(held tensor after the plain parts of an index, {dimension of a slice: index tensor})."""
    parts = _expression(level, x, index)
    tensors, basic = {}, []
    for p in parts:
        if isinstance(p, Tensor):
            tensors[len([b for b in basic if not isinstance(b, int) or isinstance(b, bool)])] = p
            basic.append(slice(None))
        else:
            basic.append(p)
    held = level.held(x)
    lead = (slice(None),) if level.is_batched(x) else ()
    return held[(*lead, *basic)] if basic else held, tensors


def _adjacent(tensors):
    places = sorted(tensors)
    return places == list(range(places[0], places[0] + len(places)))


def _shape_of(level, tensors):
    from .._functions import broadcast_shapes

    return broadcast_shapes(*[tuple(t.shape) for t in tensors.values()])


def _gathered(level, x, held, tensors):
    """held[...] with index tensors."""
    is_batched = level.is_batched(x)
    any_index = any(level.is_batched(t) for t in tensors.values())
    count = len(_shape_of(level, tensors))  # dimensions of the indices' common shape
    first = min(tensors) if _adjacent(tensors) else 0
    rank = held.dim() - is_batched
    entries = [slice(None)] * rank
    for d, t in tensors.items():
        entries[d] = padded(t._held, count) if level.is_batched(t) else t
    if is_batched and any_index:
        every = ops["arange"](level.size, device=held.device).reshape(-1, *[1] * count)
        out = held[(every, *entries)]  # [batch, indices, the rest]
        if first:
            moved = list(range(1, count + 1))
            out = out.movedim(moved, [d + first for d in moved])
        return out
    if is_batched:
        out = held[(slice(None), *entries)]
        return out if _adjacent(tensors) else out.movedim(count, 0)
    out = held[tuple(entries)]
    return out.movedim(first, 0) if first else out


@rule("__getitem__")
def _getitem(level, func, args, kwargs):
    x, index = args
    held, tensors = _taken(level, x, index)
    return level.wrap(_gathered(level, x, held, tensors) if tensors else held)


@rule("__setitem__")
def _setitem(level, func, args, kwargs):
    x, index, value = args
    if not level.is_batched(x):
        raise not_inplace("__setitem__")
    held, tensors = _taken(level, x, index)
    if not isinstance(value, Tensor):
        value = ops["full"]([], value, dtype=held.dtype, device=held.device)
    if not tensors:
        held.copy_(padded(value._held, held.dim() - 1) if level.is_batched(value) else value)
        return None
    _put(level, held, tensors, value, False)
    return None


def _put(level, held, tensors, value, accumulate):
    shape = _shape_of(level, tensors)
    count = len(shape)
    first = min(tensors) if _adjacent(tensors) else 0
    rest = [n for d, n in enumerate(held.shape[1:]) if d not in tensors]
    target = [*rest[:first], *shape, *rest[first:]]
    full = padded(level.full(value), len(target)).to(held.dtype).expand(level.size, *target)
    if first:  # the indices' dimensions are in front there
        moved = list(range(1, count + 1))
        full = full.movedim([d + first for d in moved], moved)
    every = ops["arange"](level.size, device=held.device).reshape(-1, *[1] * count)
    entries = [None] * (held.dim() - 1)
    for d, t in tensors.items():
        entries[d] = padded(level.full(t), count)
    held.index_put_([every, *entries], full, accumulate)


@rule("index_put_", "index_put", "index")
def _index_put(level, func, args, kwargs):
    given = {**dict(zip(("input", "indices", "values", "accumulate"), args, strict=False)), **kwargs}
    x = given["input"]
    index = tuple(slice(None) if i is None else i for i in given["indices"])
    if name_of(func) == "index":
        held, tensors = _taken(level, x, index)
        return level.wrap(_gathered(level, x, held, tensors))
    if name_of(func) == "index_put":
        x = level.wrap(level.full(x).clone())
    elif not level.is_batched(x):
        raise not_inplace("index_put_")
    held, tensors = _taken(level, x, index)
    _put(level, held, tensors, given["values"], given.get("accumulate", False))
    return x


# --- along a dimension ----------------------------------------------------------------------------------------------------


def _along_index(level, index, like, dim):
    """A batched vector of positions as an index of gather() for tensors like the given one."""
    full = with_dim(level.full(index))
    shape = [1] * like.dim()
    shape[0], shape[dim] = full.shape
    grown = list(like.shape)
    grown[dim] = full.shape[1]
    return full.reshape(shape).expand(grown)


@rule("index_select")
def _index_select(level, func, args, kwargs):
    given = {**dict(zip(("input", "dim", "index"), args, strict=False)), **kwargs}
    x, index = given["input"], given["index"]
    dim = place(given["dim"], level.rank(x))
    if not level.is_batched(index):
        return level.wrap(with_dim(level.full(x)).index_select(dim, index))
    held = with_dim(level.full(x))
    return level.wrap(held.gather(dim, _along_index(level, index, held, dim)))


@rule("gather", "take_along_dim")
def _gather(level, func, args, kwargs):
    given = {**dict(zip(("input", "dim", "index"), args, strict=False)), **kwargs}
    if name_of(func) == "take_along_dim":
        given = {**dict(zip(("input", "indices", "dim"), args, strict=False)), **kwargs}
        given["index"] = given.pop("indices")
        if given.get("dim") is None:
            x, index = level.full(given["input"]).flatten(1), level.full(given["index"]).flatten(1)
            return level.wrap(x.gather(1, index))
        rank = level.rank(given["input"])
        x, index = level.full(given["input"]), level.full(given["index"])
        return level.wrap(ops["take_along_dim"](x, index, place(given["dim"], rank)))
    x, index = level.full(given["input"]), level.full(given["index"])
    rank = x.dim() - 1
    out = with_dim(x).gather(place(given["dim"], rank), with_dim(index))
    return level.wrap(out if index.dim() > 1 else out.reshape(out.shape[0]))


@rule("scatter", "scatter_add", "scatter_reduce", "scatter_", "scatter_add_", "scatter_reduce_")
def _scatter(level, func, args, kwargs):
    given = {**dict(zip(("input", "dim", "index", "src", "reduce"), args, strict=False)), **kwargs}
    if "value" in given:
        given["src"] = given.pop("value")
    name = name_of(func)
    if name.endswith("_") and not level.is_batched(given["input"]):
        raise not_inplace(name)
    x, index, src = level.full(given.pop("input")), level.full(given.pop("index")), given.pop("src")
    rank, dim = x.dim() - 1, given.pop("dim")
    source = with_dim(level.full(src)) if isinstance(src, Tensor) else src
    reduce = [given.pop("reduce")] if name.startswith("scatter_reduce") else []
    out = func(with_dim(x), place(dim, rank), with_dim(index), source, *reduce, **given)
    if name.endswith("_"):
        return args[0] if args else kwargs["input"]
    return level.wrap(out if rank else out.reshape(out.shape[0]))


@rule(*[n + end for n in ("index_add", "index_copy", "index_fill", "index_reduce") for end in ("", "_")])
def _index_write(level, func, args, kwargs):
    given = {**dict(zip(("input", "dim", "index", "source", "reduce"), args, strict=False)), **kwargs}
    name = name_of(func)
    x, index = given.pop("input"), given.pop("index")
    source = given.pop("source", None) if "value" not in given else given.pop("value")
    if name.endswith("_") and not level.is_batched(x):
        raise not_inplace(name)
    if level.rank(x) == 0 or "reduce" in name:
        return by_slices(level, func, args, kwargs)
    held = level.full(x)
    dim = place(given.pop("dim"), held.dim() - 1)
    values = source
    if isinstance(source, Tensor):
        values = level.full(source)
    if not level.is_batched(index) and not ("fill" in name and isinstance(source, Tensor) and source.dim()):
        if "fill" in name and isinstance(source, Tensor):
            if level.is_batched(source):
                return by_slices(level, func, args, kwargs)
            values = source
        out = func(held, dim, index, values, **given)
    else:
        places = _along_index(level, index, held, dim)
        alpha = given.get("alpha", 1)
        run = ("scatter_add" if "add" in name else "scatter") + ("_" if name.endswith("_") else "")
        if isinstance(values, Tensor):
            values = values.expand(places.shape) * alpha if alpha != 1 else values.expand(places.shape)
        out = ops[run](held, dim, places, values)
    return x if name.endswith("_") else level.wrap(out)


@rule("take")
def _take(level, func, args, kwargs):
    x, index = (*args, *kwargs.values())
    flat, places = level.full(x).flatten(1) if level.rank(x) else with_dim(level.full(x)), level.full(index)
    return level.wrap(flat.gather(1, with_dim(places.flatten(1) if places.dim() > 1 else places)).reshape(places.shape))


@rule("select_scatter", "slice_scatter")
def _view_scatter(level, func, args, kwargs):
    names = (
        ("input", "src", "dim", "index")
        if "select" in func.__name__
        else ("input", "src", "dim", "start", "end", "step")
    )
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    rank = level.rank(given["input"])
    given["dim"] = place(given.get("dim", 0), rank)
    given["input"], given["src"] = level.full(given["input"]), level.full(given["src"])
    return level.wrap(func(**given))


@rule("one_hot")
def _one_hot(level, func, args, kwargs):
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if classes == -1:
        raise VmapError("vmap: one_hot() needs num_classes: the number of classes would depend on values")
    return level.wrap(func(level.full(args[0]), classes))


@rule("embedding")
def _embedding(level, func, args, kwargs):
    given = {**dict(zip(("input", "weight", "padding_idx"), args, strict=False)), **kwargs}
    index, weight = given.pop("input"), given.pop("weight")
    if not level.is_batched(weight):
        return level.wrap(func(level.full(index), weight, **given))
    if given.get("max_norm") is not None or given.get("scale_grad_by_freq"):
        return by_slices(level, func, args, kwargs)
    table, places, padding = weight._held, level.full(index), given.get("padding_idx")
    count = table.shape[1]
    if padding is not None:  # the row passes no gradient
        row = ops["arange"](count, device=table.device) == padding % count
        table = ops["where"](row.reshape(-1, 1), table.detach(), table)
    flat = places.reshape(places.shape[0], -1, 1).expand(-1, -1, table.shape[2])
    return level.wrap(table.gather(1, flat).reshape(*places.shape, table.shape[2]))


@rule("searchsorted", "bucketize")
def _search(level, func, args, kwargs):
    if name_of(func) == "bucketize":
        values, rows = (args[0], args[1]) if len(args) > 1 else (args[0], kwargs["boundaries"])
        options = {k: v for k, v in kwargs.items() if k != "boundaries"}
    else:
        rows, values = args[0], args[1] if len(args) > 1 else kwargs["input"]
        options = {k: v for k, v in kwargs.items() if k != "input"}
    if not level.is_batched(rows) and level.rank(rows) == 1 and not isinstance(options.get("sorter"), Tensor):
        return level.wrap(ops["searchsorted"](rows, level.full(values), **options))
    if not isinstance(values, Tensor) or isinstance(options.get("sorter"), Tensor):
        return by_slices(level, func, args, kwargs)
    table, wanted = level.full(rows).contiguous(), level.full(values)
    if table.dim() > 2:
        return level.wrap(ops["searchsorted"](table, wanted.contiguous(), **options))
    flat = wanted.reshape(wanted.shape[0], -1).contiguous()
    return level.wrap(ops["searchsorted"](table, flat, **options).reshape(wanted.shape))


@rule("isin")
def _isin(level, func, args, kwargs):
    elements, tests = args[0], args[1]
    if isinstance(tests, Tensor) and level.is_batched(tests) or not isinstance(elements, Tensor):
        return by_slices(level, func, args, kwargs)
    return level.wrap(func(elements._held, *args[1:], **kwargs))


@rule("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_masked_select")
def _of_values(level, func, args, kwargs):
    raise VmapError(
        f"vmap: the shape of {name_of(func)}'s result depends on the values of a slice, so it cannot be batched; use "
        "where(), masked_fill() or nonzero_static()"
    )


RULES["python unique"] = RULES["python unique_consecutive"] = RULES["python nonzero"] = _of_values


@rule("python equal", "python allclose")
def _truth(level, func, args, kwargs):
    raise VmapError(
        f"vmap: {func.__name__}() of batched tensors has one answer per slice; use eq().all() or isclose().all()"
    )
