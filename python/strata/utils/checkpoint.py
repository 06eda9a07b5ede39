"""Checkpointing: recompute a part of the forward pass during backward instead of keeping its intermediate results."""

import contextlib

from .. import _C
from ..amp.autocast_mode import autocast
from ..autograd import Function, enable_grad
from ..random import get_rng_state, set_rng_state

_DEVICE_TYPES = ("cpu", "cuda", "vgpu")


def _autocast_state():
    """The autocast scopes of this thread, as (enabled, dtype) by device type, and whether casts are kept."""
    scopes = [(kind, _C._is_autocast_enabled(kind), _C.get_autocast_dtype(kind)) for kind in _DEVICE_TYPES]
    return scopes, _C.is_autocast_cache_enabled()


@contextlib.contextmanager
def _with_autocast(state):
    """Restores a state of autocast inside, so that a part is recomputed in the dtypes it was computed in."""
    scopes, cache = state
    with contextlib.ExitStack() as stack:
        for kind, enabled, dtype in scopes:
            if enabled:
                stack.enter_context(autocast(kind, dtype=dtype, cache_enabled=cache))
        yield


class _Checkpoint(Function):
    @staticmethod
    def forward(ctx, function, kwargs, preserve_rng_state, anchor, *args):
        ctx.function, ctx.kwargs = function, kwargs
        ctx.autocast_state = _autocast_state()
        ctx.rng_state = get_rng_state() if preserve_rng_state else None
        ctx.args = [
            None if isinstance(a, _C.Tensor) else a for a in args
        ]  # tensors are saved, and freed with the graph
        ctx.save_for_backward(*[a if isinstance(a, _C.Tensor) else None for a in args])
        if anchor is None:
            return function(*args, **kwargs)
        with enable_grad():  # only this tells whether the function has parameters to differentiate
            out = function(*args, **kwargs)
        several = isinstance(out, tuple)
        outs = [o.detach() if isinstance(o, _C.Tensor) else o for o in (out if several else (out,))]
        constant = [
            d
            for o, d in zip(out if several else (out,), outs, strict=True)
            if isinstance(o, _C.Tensor) and not o.requires_grad
        ]
        ctx.mark_non_differentiable(*constant)
        return tuple(outs) if several else outs[0]

    @staticmethod
    def backward(ctx, *grads):
        saved = ctx.saved_tensors
        args = [
            a if t is None else t.detach().requires_grad_(t.requires_grad) for a, t in zip(ctx.args, saved, strict=True)
        ]
        now = get_rng_state()
        if ctx.rng_state is not None:
            set_rng_state(ctx.rng_state)
        try:
            with enable_grad(), _with_autocast(ctx.autocast_state):
                out = ctx.function(*args, **ctx.kwargs)
        finally:
            set_rng_state(now)
        outs = out if isinstance(out, tuple) else (out,)
        pairs = [(o, g) for o, g in zip(outs, grads, strict=True) if isinstance(o, _C.Tensor) and o.requires_grad]
        _C._backward([o for o, _ in pairs], [g for _, g in pairs], False, False, None)
        return (None, None, None, None, *[a.grad if isinstance(a, _C.Tensor) else None for a in args])


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs), whose intermediate results are discarded and recomputed in backward.

    Parameters that the function uses get gradients also if no argument requires one, unless use_reentrant is True."""
    anchor = None
    if use_reentrant is not True and not any(isinstance(a, _C.Tensor) and a.requires_grad for a in args):
        anchor = _C.ops["empty"]([0], requires_grad=True)
    return _Checkpoint.apply(function, kwargs, preserve_rng_state, anchor, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs the functions in sequence, checkpointed in the given number of segments."""
    functions = list(functions)
    size = -(-len(functions) // segments)

    def run(part):
        def forward(x):
            for f in part:
                x = f(x)
            return x

        return forward

    for start in range(0, len(functions), size):
        input = checkpoint(run(functions[start : start + size]), input, use_reentrant=use_reentrant, **kwargs)
    return input
