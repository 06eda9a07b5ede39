"""Batching rules of reductions, scans, sorts and other ops along dimensions of a slice."""

from .core import Tensor, name_of, ops, place, rule, with_dim, wrap_tree

_MISSING = object()


def _take(args, kwargs, position, names, default):
    """An argument by position or name, removed from both: (value, args, kwargs)."""
    for name in names:
        if name in kwargs:
            return kwargs[name], args, {k: v for k, v in kwargs.items() if k != name}
    if len(args) > position:
        return args[position], (*args[:position], *args[position + 1 :]), kwargs
    return default, args, kwargs


def input_of(args, kwargs):
    """The first argument, also where it is given by name."""
    for name in ("input", "self", "x", "A"):
        if not args and name in kwargs:
            return kwargs[name], {k: v for k, v in kwargs.items() if k != name}
    return args[0], kwargs


def _at(dim, rank):
    return [place(d, rank) for d in dim] if isinstance(dim, (tuple, list)) else place(dim, rank)


# --- reductions over several dims -----------------------------------------------------------------------------------------


@rule(*"sum nansum mean nanmean amax amin logsumexp all any count_nonzero special.logsumexp".split())
def reduce_several(level, func, args, kwargs):
    """sum(input, dim=None, ...): without dims over all of a slice."""
    x, kwargs = input_of(args, kwargs)
    dim, rest, named = _take(args[1:], kwargs, 0, ("dim", "axis"), None)
    held = with_dim(x._held)
    rank = x._held.dim() - 1
    if dim is None or dim == () or dim == []:
        dim = list(range(1, held.dim()))
    else:
        dim = _at(dim, rank)
    out = func(held, dim, *rest, **named)
    return _shaped(level, out, rank)


def _shaped(level, out, rank):
    """Results for slices without dimensions have none, whatever keepdim says."""
    if rank == 0:
        items = [o.reshape(o.shape[0]) for o in out] if isinstance(out, tuple) else out.reshape(out.shape[0])
        out = type(out)(items) if isinstance(out, tuple) else items
    return wrap_tree(out, level)


@rule("var", "std", "var_mean", "std_mean")
def _moments(level, func, args, kwargs):
    x, kwargs = input_of(args, kwargs)
    args, kwargs = list(args[1:]), dict(kwargs)
    if args and isinstance(args[0], bool):
        kwargs["correction"] = int(args.pop(0))
    dim = kwargs.pop("dim", kwargs.pop("axis", None)) if not args else args.pop(0)
    if args:
        kwargs["correction"] = int(args.pop(0))
    if args:
        kwargs["keepdim"] = args.pop(0)
    if "unbiased" in kwargs:
        kwargs["correction"] = int(kwargs.pop("unbiased"))
    held, rank = with_dim(x._held), x._held.dim() - 1
    dim = list(range(1, held.dim())) if dim is None or dim in ((), []) else _at(dim, rank)
    dim = dim if isinstance(dim, list) else [dim]
    return _shaped(level, func(held, dim, **kwargs), rank)


# --- reductions over one dim, or over all elements ------------------------------------------------------------------------


@rule(*"prod argmax argmin median nanmedian aminmax".split())
def reduce_one(level, func, args, kwargs):
    """max(input, dim=None, keepdim=False): without a dim the value of all elements."""
    x, kwargs = input_of(args, kwargs)
    dim, rest, named = _take(args[1:], kwargs, 0, ("dim", "axis"), None)
    held, rank = with_dim(x._held), x._held.dim() - 1
    if dim is not None:
        key = {"dim": place(dim, rank)} if name_of(func) == "aminmax" else {}
        at = () if key else (place(dim, rank),)
        return _shaped(level, func(held, *at, *rest, **named, **key), rank)
    keep = rest[0] if rest else named.pop("keepdim", named.pop("keepdims", False))
    key = {"dim": 1} if name_of(func) == "aminmax" else {}
    out = func(held.flatten(1), *(() if key else (1,)), **named, **key)
    if name_of(func) in ("max", "min", "median", "nanmedian"):
        out = out[0]
    if keep:
        out = out.reshape(out.shape[0], *[1] * rank)
    return wrap_tree(out, level)


# --- ops along one dim, which keep it or not ------------------------------------------------------------------------------

_ALONG = {  # name: (position of dim after the input, its default)
    "softmax": (0, None),
    "log_softmax": (0, None),
    "softmin": (0, None),
    "cumsum": (0, _MISSING),
    "cumprod": (0, _MISSING),
    "cummax": (0, _MISSING),
    "cummin": (0, _MISSING),
    "logcumsumexp": (0, _MISSING),
    "sort": (0, -1),
    "argsort": (0, -1),
    "topk": (1, -1),
    "kthvalue": (1, -1),
    "mode": (0, -1),
    "glu": (0, -1),
    "fft.fft": (1, -1),
    "fft.ifft": (1, -1),
    "fft.rfft": (1, -1),
    "fft.irfft": (1, -1),
    "fft.hfft": (1, -1),
    "fft.ihfft": (1, -1),
    "_softmax_backward_data": (1, -1),
}


@rule(*_ALONG)
def _along(level, func, args, kwargs):
    name = name_of(func)
    x, kwargs = input_of(args, kwargs)
    position, default = _ALONG[name]
    dim, rest, named = _take(args[1:], kwargs, position, ("dim", "axis"), default)
    rank = level.rank(x)
    if name == "sort" and isinstance(dim, bool):  # sort(descending)
        dim, named = -1, {**named, "descending": dim}
    if dim is _MISSING:
        raise TypeError(f"{name}(): missing required argument 'dim'")
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
    held = with_dim(level.full(x))
    given = [with_dim(level.full(r)) if isinstance(r, Tensor) else r for r in rest]
    at = place(dim, rank)
    if "sort" in name and given:  # sort(dim, descending)
        named, given = {**named, "descending": given[0]}, []
    if len(given) < position:
        out = func(held, *given, dim=at, **named)
    else:
        out = func(held, *given[:position], at, *given[position:], **named)
    return _shaped(level, out, rank)


@rule("msort")
def _msort(level, func, args, kwargs):
    return wrap_tree(ops["sort"](with_dim(args[0]._held), 1)[0], level)


@rule("diff")
def _diff(level, func, args, kwargs):
    names = ("input", "n", "dim", "prepend", "append")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    rank = level.rank(given["input"])
    for key in ("input", "prepend", "append"):
        if given.get(key) is not None:
            given[key] = level.full(given[key])
    given["dim"] = place(given.get("dim", -1), rank)
    return wrap_tree(func(**given), level)


@rule("quantile", "nanquantile")
def _quantile(level, func, args, kwargs):
    names = ("input", "q", "dim", "keepdim")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    x, q, dim, keep = given.pop("input"), given.pop("q"), given.pop("dim", None), given.pop("keepdim", False)
    if level.is_batched(q) or not level.is_batched(x):
        from .core import by_slices

        return by_slices(level, func, args, kwargs)
    held, rank = with_dim(x._held), x._held.dim() - 1
    if dim is None:
        out = func(held.flatten(1), q, 1, **given)
        shape = [1] * rank if keep else []
    else:
        out = func(held, q, place(dim, rank), keep, **given)
        shape = None
    if isinstance(q, Tensor) and q.dim():  # the quantiles are in front
        out = out.movedim(0, 1)
        lead = [out.shape[1]]
    else:
        lead = []
    if shape:
        out = out.reshape(out.shape[0], *lead, *shape)
    return wrap_tree(out, level)


@rule("norm", "linalg.norm", "linalg.vector_norm")
def _norm(level, func, args, kwargs):
    x, kwargs = input_of(args, kwargs)
    name = name_of(func)
    order, rest, named = _take(args[1:], kwargs, 0, ("p", "ord"), None)
    dim, rest, named = _take(rest, named, 0, ("dim", "axis"), None)
    keep, rest, named = _take(rest, named, 0, ("keepdim",), False)
    held, rank = with_dim(x._held), x._held.dim() - 1
    matrix = name == "linalg.norm" and dim is None and order is not None and rank == 2
    if matrix or isinstance(order, str):
        dims = [1, 2] if dim is None and rank == 2 else list(range(1, held.dim())) if dim is None else _at(dim, rank)
        if isinstance(dims, list) and len(dims) == 1:
            order = 2.0 if order == "fro" else order
        return _shaped(level, ops["linalg.norm"](held, order, dims, keep, **named), rank)
    order = 2.0 if order is None else order
    if dim is not None and name == "linalg.norm" and isinstance(dim, (tuple, list)) and len(dim) == 2:
        if "ord" in kwargs or len(args) > 1:
            return _shaped(level, ops["linalg.norm"](held, order, _at(dim, rank), keep, **named), rank)
    if dim is None:
        out = ops["linalg.vector_norm"](held, order, list(range(1, held.dim())), keep, **named)
    else:
        out = ops["linalg.vector_norm"](held, order, _at(dim, rank), keep, **named)
    return _shaped(level, out, rank)


@rule("linalg.matrix_norm")
def _matrix_norm(level, func, args, kwargs):
    x, kwargs = input_of(args, kwargs)
    order, rest, named = _take(args[1:], kwargs, 0, ("ord",), "fro")
    dim, rest, named = _take(rest, named, 0, ("dim",), (-2, -1))
    return wrap_tree(func(x._held, order, _at(dim, x._held.dim() - 1), *rest, **named), level)


@rule("normalize")
def _normalize(level, func, args, kwargs):
    names = ("input", "p", "dim", "eps")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    given["dim"] = _at(given.get("dim", 1), level.rank(given["input"]))
    given["input"] = given["input"]._held
    return wrap_tree(func(**given), level)


# Ops along dims that both come from a list; without a list over the last ones.
@rule(*[f"fft.{kind}{n}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for n in ("2", "n")])
def _fft_several(level, func, args, kwargs):
    x, kwargs = input_of(args, kwargs)
    name = name_of(func)
    size, rest, named = _take(args[1:], kwargs, 0, ("s",), None)
    dim, rest, named = _take(rest, named, 0, ("dim",), None)
    rank = x._held.dim() - 1
    if dim is None:
        dim = (-2, -1) if name.endswith("2") else range(-(len(size) if size is not None else rank), 0)
    return wrap_tree(func(x._held, size, _at(list(dim), rank), *rest, **named), level)


@rule("fft.fftshift", "fft.ifftshift")
def _fft_shift(level, func, args, kwargs):
    x, kwargs = input_of(args, kwargs)
    dim, _, _ = _take(args[1:], kwargs, 0, ("dim",), None)
    rank = x._held.dim() - 1
    dim = list(range(1, rank + 1)) if dim is None else _at([dim] if isinstance(dim, int) else list(dim), rank)
    return wrap_tree(func(x._held, dim), level)


@rule("cosine_similarity")
def _cosine_similarity(level, func, args, kwargs):
    names = ("x1", "x2", "dim", "eps")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    from .core import padded

    rank = max(level.rank(given["x1"]), level.rank(given["x2"]))
    given["dim"] = place(given.get("dim", 1), rank)
    for key in ("x1", "x2"):
        given[key] = padded(level.full(given[key]), rank)
    return wrap_tree(func(**given), level)


@rule("trapezoid", "cumulative_trapezoid", "trapz")
def _trapezoid(level, func, args, kwargs):
    kwargs = dict(kwargs)
    rank = level.rank(args[0])
    kwargs["dim"] = place(kwargs.get("dim", -1), rank)
    if len(args) > 1 or "x" in kwargs:
        x = args[1] if len(args) > 1 else kwargs.pop("x")
        full = level.full(x)
        if full.dim() == 2 and rank > 1:
            full = full.reshape(
                full.shape[0], *[full.shape[1] if d == kwargs["dim"] else 1 for d in range(1, rank + 1)]
            )
        return wrap_tree(func(level.full(args[0]), full, **kwargs), level)
    return wrap_tree(func(level.full(args[0]), **kwargs), level)
