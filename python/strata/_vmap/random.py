"""Batching rules of ops that draw random numbers, by vmap's randomness."""

from .core import RANDOM, Tensor, VmapError, not_inplace, ops
from .views import _ints


def _check(level):
    if level.randomness == "error":
        raise VmapError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    return level.randomness == "different"


def _rule(*names):
    def add(f):
        for name in names:
            RANDOM[name] = f
        return f

    return add


@_rule("rand", "randn")
def _of_size(level, func, args, kwargs):
    if not _check(level):
        return func(*args, **kwargs)
    kwargs = dict(kwargs)
    size = _ints(args, kwargs, "size")
    kwargs.pop("size", None)
    return level.wrap(func([level.size, *size], **kwargs))


@_rule("randint")
def _randint(level, func, args, kwargs):
    if not _check(level):
        return func(*args, **kwargs)
    args, kwargs = list(args), dict(kwargs)
    if "size" in kwargs:
        kwargs["size"] = [level.size, *kwargs["size"]]
    else:
        args[-1] = [level.size, *args[-1]]
    return level.wrap(func(*args, **kwargs))


@_rule("randperm")
def _randperm(level, func, args, kwargs):
    if not _check(level):
        return func(*args, **kwargs)
    return level.wrap(ops["stack"]([func(*args, **kwargs) for _ in range(level.size)]))


@_rule(
    "rand_like", "randn_like", "randint_like", "_standard_gamma", "_sample_dirichlet", "poisson", "binomial", "normal"
)
def _of_tensors(level, func, args, kwargs):
    different = _check(level)
    if not different and not level.has_batched(args, kwargs):
        return func(*args, **kwargs)
    if not different:
        if func.__name__ not in ("rand_like", "randn_like", "randint_like", "normal"):
            raise VmapError(f"vmap: {func.__name__} of batched tensors cannot draw the same numbers for all slices")
        if func.__name__ == "normal":
            return _normal_same(level, args, kwargs)
        return func(level.full(args[0])[0] if level.size else args[0], *args[1:], **kwargs)
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    if not tensors:  # normal(0.0, 1.0, size)
        kwargs = dict(kwargs)
        size = kwargs.pop("size", None) or args[2]
        return level.wrap(func(*args[:2], [level.size, *size], **kwargs))
    from .core import padded

    rank = max(level.rank(t) for t in tensors)
    given = [padded(level.full(x), rank) if isinstance(x, Tensor) else x for x in args]
    named = {k: padded(level.full(x), rank) if isinstance(x, Tensor) else x for k, x in kwargs.items()}
    return level.wrap(func(*given, **named))


def _normal_same(level, args, kwargs):
    given = {**dict(zip(("mean", "std"), args, strict=False)), **kwargs}
    mean, std = given.get("mean", 0.0), given.get("std", 1.0)
    like = mean if isinstance(mean, Tensor) else std
    with level:
        shape = (mean + std).shape
    noise = ops["randn"](shape, dtype=like.dtype, device=level.held(like).device, generator=given.get("generator"))
    with level:
        return mean + std * noise


@_rule("bernoulli")
def _bernoulli(level, func, args, kwargs):
    different = _check(level)
    x = args[0]
    if different:
        return level.wrap(func(level.full(x), *args[1:], **kwargs))
    if not level.is_batched(x):
        return func(*args, **kwargs)
    p = args[1] if len(args) > 1 else kwargs.get("p")
    noise = ops["rand"](x._held.shape[1:], dtype=x.dtype, device=x.device, generator=kwargs.get("generator"))
    return level.wrap((noise < (x._held if p is None else p)).to(x.dtype).expand(x._held.shape))


@_rule("multinomial")
def _multinomial(level, func, args, kwargs):
    different = _check(level)
    x = args[0]
    if not different:
        if level.is_batched(x):
            raise VmapError("vmap: multinomial of batched weights cannot draw the same numbers for all slices")
        return func(*args, **kwargs)
    held = level.full(x)
    rows = func(held.reshape(-1, held.shape[-1]), *args[1:], **kwargs)
    return level.wrap(rows.reshape(*held.shape[:-1], rows.shape[-1]))


_INPLACE = "uniform_ normal_ log_normal_ exponential_ cauchy_ geometric_ random_ bernoulli_"


@_rule(*_INPLACE.split())
def _inplace(level, func, args, kwargs):
    different = _check(level)
    x = args[0]
    if not level.is_batched(x):
        if different:
            raise VmapError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                "randomness; make the tensor from a batched one, with x.new_empty(shape)"
            )
        if level.has_batched(args, kwargs):
            raise not_inplace(func.__name__)
        return func(*args, **kwargs)
    if different:
        func(x._held, *[level.held(a) for a in args[1:]], **kwargs)
    else:
        if level.has_batched(args[1:], kwargs):
            raise VmapError(f"vmap: {func.__name__} of batched tensors cannot draw the same numbers for all slices")
        one = ops["empty"](x._held.shape[1:], dtype=x.dtype, device=x.device)
        x._held.copy_(func(one, *args[1:], **kwargs).unsqueeze(0))
    return x


# --- dropout --------------------------------------------------------------------------------------------------------------

_DROPOUTS = (
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout native_dropout rrelu"
)


@_rule(*_DROPOUTS.split())
def _dropout(level, func, args, kwargs):
    name = func.__name__
    names = ("input", "lower", "upper", "training") if name == "rrelu" else ("input", "p", "training", "inplace")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    training = given.get(
        "training", given.get("train", name not in ("alpha_dropout", "feature_alpha_dropout", "rrelu"))
    )
    given["input"] = x = given.get("input", None)
    if not training or given.get("p") == 0:
        if not level.is_batched(x):
            return func(*args, **kwargs)
        return level.wrap(func(x._held, *args[1:], **{k: v for k, v in kwargs.items() if k != "input"}))
    different = _check(level)
    rest = tuple(args[1:])
    named = {k: v for k, v in kwargs.items() if k != "input"}
    if different:
        held = level.full(x) if level.is_batched(x) else level.full(x).contiguous()
        channels = name in ("dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "feature_dropout")
        if channels and held.dim() > int(name[7:8] or 2) + 2 and name.startswith("dropout"):
            flat = held.reshape(-1, *held.shape[2:])
            return level.wrap(func(flat, *rest, **named).reshape(held.shape))
        if channels and not name.startswith("dropout"):
            raise VmapError(f"vmap: {name} has no rule for different random numbers; use dropout2d")
        return level.wrap(func(held, *rest, **named))
    if not level.is_batched(x):
        return func(*args, **kwargs)
    if not name.startswith("dropout"):
        raise VmapError(f"vmap: {name} has no rule for the same random numbers; use randomness='different'")
    mask = func(ops["ones"](x._held.shape[1:], dtype=x.dtype, device=x.device), *rest, **{**named, "inplace": False})
    if given.get("inplace"):
        x._held.mul_(mask)
        return x
    return level.wrap(x._held * mask)
