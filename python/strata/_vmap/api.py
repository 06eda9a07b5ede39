"""vmap(): a function of one slice as a function of all of them."""

import functools

from .. import _C
from ..utils import _pytree
from . import core, rules  # noqa: F401  rules fills the tables
from .core import BatchedTensor, Level, Tensor, _state, active_levels

ops = _C.ops


def _dims_of(dims, tree, what):
    """One dim per leaf of a tree, from a dim for all or a tree of the same form, of which a leaf may stand for a subtree."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(_pytree.tree_leaves(tree))
    if isinstance(tree, dict) and isinstance(dims, dict) and tree.keys() == dims.keys():
        return [d for k in tree for d in _dims_of(dims[k], tree[k], what)]
    if isinstance(tree, (tuple, list)) and isinstance(dims, (tuple, list)) and len(tree) == len(dims):
        return [d for t, k in zip(tree, dims, strict=True) for d in _dims_of(k, t, what)]
    raise ValueError(f"vmap: {what} is not compatible with the structure of the values: got {dims!r}")


def _flat_inputs(args, in_dims):
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the inputs, got {in_dims!r}"
        )
    if not args:
        raise ValueError("vmap: got no inputs. Maybe you forgot to add inputs, or you are vmapping over a function")
    leaves, spec = _pytree.tree_flatten(list(args))
    dims = _dims_of(in_dims if isinstance(in_dims, int) else list(in_dims), list(args), "in_dims")
    found = []
    for x, dim in zip(leaves, dims, strict=True):
        if dim is not None and not isinstance(x, Tensor):
            raise ValueError(
                f"vmap: got in_dim={dim} for an input of type {type(x).__name__}; only Tensors can be mapped, use None"
            )
        if dim is not None and not -x.dim() <= dim < x.dim():
            raise ValueError(
                f"vmap: got in_dim={dim} for an input of {x.dim()} dimensions, expected -{x.dim()} <= in_dim < {x.dim()}"
            )
        found.append(dim if dim is None else dim % x.dim())
    return leaves, found, spec


def _batch_size(leaves, dims):
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: at least one input must be mapped: in_dims has only None, or there are no Tensors")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
    return sizes[0]


def run_level(func, leaves, dims, spec, size, randomness, kwargs):
    """func with batched tensors, then what results hold, None as their batch if they are not batched: (leaves, spec)."""
    level = Level(size, randomness)
    level.depth = len(active_levels()) + 1
    given = [x if d is None else level.wrap(x.movedim(d, 0) if d else x) for x, d in zip(leaves, dims, strict=True)]
    _state.levels = (*active_levels(), level)
    try:
        with level:
            result = func(*_pytree.tree_unflatten(given, spec), **kwargs)
    finally:
        _state.levels = _state.levels[:-1]
    flat, form = _pytree.tree_flatten(result)
    for y in flat:
        if not isinstance(y, Tensor):
            raise ValueError(
                f"vmap({getattr(func, '__name__', 'func')}, ...): `{getattr(func, '__name__', 'func')}` must only return "
                f"Tensors, got type {type(y)} as a return."
            )
    return [(y._held, True) if level.is_batched(y) else (y, False) for y in flat], form, result


def _placed(pairs, dims, size):
    """The results with the batch at its place."""
    found = []
    for (y, is_batched), dim in zip(pairs, dims, strict=True):
        if dim is None:
            if is_batched:
                raise ValueError("vmap: out_dims is None for a result that depends on a mapped input")
            found.append(y)
            continue
        rank = y.dim() if is_batched else y.dim() + 1
        if not -rank <= dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
            )
        y = y if is_batched else y.unsqueeze(0).expand(size, *y.shape)
        found.append(y.movedim(0, dim) if dim % rank else y)
    return found


def _once(func, leaves, dims, spec, out_dims, randomness, kwargs):
    size = _batch_size(leaves, dims)
    pairs, form, result = run_level(func, leaves, dims, spec, size, randomness, kwargs)
    outs = (
        [out_dims] * len(pairs)
        if out_dims is None or isinstance(out_dims, int)
        else _dims_of(
            out_dims[0] if len(out_dims) == 1 and isinstance(result, Tensor) else out_dims, result, "out_dims"
        )
    )
    return _placed(pairs, outs, size), outs, form


def _in_chunks(func, leaves, dims, spec, out_dims, randomness, chunk_size, kwargs):
    size, parts = _batch_size(leaves, dims), []
    for start in range(0, max(size, 1), chunk_size):
        length = min(chunk_size, size - start)
        these = [x if d is None else x.narrow(d, start, length) for x, d in zip(leaves, dims, strict=True)]
        flat, outs, form = _once(func, these, dims, spec, out_dims, randomness, kwargs)
        parts.append(flat)
    joined = [p[0] if d is None else ops["cat"](p, d) for d, *p in zip(outs, *parts, strict=True)]
    return joined, outs, form


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """func for all slices of its arguments along in_dims at once, with the results along out_dims.

    func is called one time, with tensors of the shape of a slice; every op works on all slices. An op without a batching
    rule runs once per slice and warns. randomness: "error", "different" numbers for each slice, or the "same" ones.

    >>> strata.func.vmap(lambda a, b: a @ b)(strata.ones(2, 3), strata.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def batched(*args, **kwargs):
        leaves, dims, spec = _flat_inputs(args, in_dims)
        if chunk_size is None:
            flat, _, form = _once(func, leaves, dims, spec, out_dims, randomness, kwargs)
        else:
            flat, _, form = _in_chunks(func, leaves, dims, spec, out_dims, randomness, chunk_size, kwargs)
        return _pytree.tree_unflatten(flat, form)

    return batched


# --- for transforms inside of vmap ----------------------------------------------------------------------------------------


def plain_of(t):
    """The tensor that holds all slices of all levels, and the levels, the outermost first."""
    levels = []
    while type(t) is BatchedTensor:
        levels.append(t._level)
        t = t._held
    return t, levels[::-1]


def rewrapped(plain, levels):
    """The batched tensor of a plain one."""
    for level in levels:  # the outermost holds the plain tensor
        plain = core.wrap(plain, level)
    return plain


def everywhere(t, levels):
    """(plain tensor with a batch dimension for each of the levels) of a tensor that may miss some."""
    plain, have = plain_of(t)
    for i, level in enumerate(levels):
        if level not in have:
            plain = plain.unsqueeze(i)
            plain = plain.expand(*plain.shape[:i], level.size, *plain.shape[i + 1 :])
    return plain
