"""Functions and custom ops of users inside of vmap(): by their own rules, or slice by slice."""

import collections

from .. import _C
from .core import BatchedTensor, Level, Tensor, VmapError, by_slices, run_slices

VmapInfo = collections.namedtuple("VmapInfo", ["batch_size", "randomness"])


def current_level():
    """The level whose function is running, None outside of vmap()."""
    modes = _C._function_modes()
    return modes[-1] if modes and type(modes[-1]) is Level else None


def run(level, call, how, args, kwargs):
    """call(*args, **kwargs) for the enclosing level if nothing is batched here, else how(level, args, kwargs)."""
    _C._pop_function_mode()
    try:
        return how(level, args, kwargs) if level.has_batched(args, kwargs) else call(*args, **kwargs)
    finally:
        _C._push_function_mode(level)


def by_rule(level, rule, args, kwargs):
    """The result of a rule of the user: rule(info, in_dims, *args) returns (output, out_dims)."""
    from ..utils import _pytree
    from .api import _dims_of

    def dim(x):
        return 0 if level.is_batched(x) else None

    def tree(x, of):
        return type(x)([tree(e, of) for e in x]) if isinstance(x, (list, tuple)) else of(x)

    dims = tuple(tree(a, dim) for a in args)
    given = [tree(a, level.held) for a in args]
    made, out_dims = rule(VmapInfo(level.size, level.randomness), dims, *given, **kwargs)
    leaves, spec = _pytree.tree_flatten(made)
    placed = _dims_of(out_dims, made, "out_dims of a vmap rule")
    done = [
        y if d is None or not isinstance(y, Tensor) else level.wrap(y.movedim(d, 0))
        for y, d in zip(leaves, placed, strict=True)
    ]
    return _pytree.tree_unflatten(done, spec)


def apply_function(level, cls, args, kwargs):
    """Function.apply with batched arguments: by its static method vmap, or once per slice with generate_vmap_rule."""

    def how(level, args, kwargs):
        if "vmap" in vars(cls):
            return by_rule(level, cls.vmap, args, kwargs)
        if not getattr(cls, "generate_vmap_rule", False):
            raise VmapError(
                f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
                "the vmap staticmethod or set generate_vmap_rule=True."
            )
        return run_slices(level, cls.apply, args, kwargs)

    return run(level, cls.apply, how, args, kwargs)


def call_custom_op(level, op, rule, args, kwargs):
    """A custom op with batched arguments: by its registered rule, or once per slice with a warning."""

    def how(level, args, kwargs):
        return by_slices(level, op, args, kwargs) if rule is None else by_rule(level, rule, args, kwargs)

    return run(level, op, how, args, kwargs)


def is_batched(tensor):
    """Whether a tensor is one that vmap() passes to its function."""
    return type(tensor) is BatchedTensor
