"""Calls of modules with hooks; modules without hooks do not use this."""

from ..autograd.function import Function
from . import _global_hooks as every


class _Tap(Function):
    """Returns its inputs unchanged; passes their gradients to a callback."""

    @staticmethod
    def forward(ctx, callback, *tensors):
        ctx.callback = callback
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.callback(grads))


def _tap(values, callback):
    """Replaces the tensors that require gradients in a tuple of values; returns whether there were any."""
    from .. import _C

    count, places = len(values), [i for i, v in enumerate(values) if isinstance(v, _C.Tensor) and v.requires_grad]
    if not places:
        return values, False

    def spread(grads):  # must not hold the values: the graph would own itself
        full = [None] * count
        for place, g in zip(places, grads, strict=True):
            full[place] = g
        result = callback(tuple(full))
        return [result[p] for p in places]

    tapped = _Tap.apply(spread, *[values[p] for p in places])
    values = list(values)
    for place, t in zip(places, tapped, strict=True):
        values[place] = t
    return tuple(values), True


class _BackwardHooks:
    """The gradients of one call: outputs' first, then the inputs'."""

    def __init__(self, module):
        self.module, self.grad_output = module, None
        self.pre = [*every.backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        self.post = [*every.backward_hooks.values(), *module._backward_hooks.values()]
        self.inputs_tapped = True

    def at_outputs(self, grads):
        for hook in self.pre:
            found = hook(self.module, grads)
            if found is not None:
                grads = found if isinstance(found, tuple) else (found,)
        self.grad_output = grads
        if not self.inputs_tapped:
            for hook in self.post:
                hook(self.module, (None,), grads)
        return grads

    def at_inputs(self, grads):
        grad_output, self.grad_output = self.grad_output, None
        for hook in self.post:
            found = hook(self.module, grads, grad_output)
            if found is not None:
                grads = found if isinstance(found, tuple) else (found,)
        return grads


def call(module, args, kwargs):
    """forward with all hooks of the module."""
    always, result = {**every.hooks_always_called, **module._forward_hooks_always_called}, None
    try:
        for ident, hook in [*every.forward_pre_hooks.items(), *module._forward_pre_hooks.items()]:
            if ident in module._forward_pre_hooks_with_kwargs:
                found = hook(module, args, kwargs)
                if found is not None:
                    if not (isinstance(found, tuple) and len(found) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {found}."
                        )
                    args, kwargs = found
            else:
                found = hook(module, args)
                if found is not None:
                    args = found if isinstance(found, tuple) else (found,)
        backward = _BackwardHooks(module)
        backward = backward if backward.pre or backward.post else None
        if backward:
            args, backward.inputs_tapped = _tap(args, backward.at_inputs)
        result = module.forward(*args, **kwargs)
        for ident, hook in [*every.forward_hooks.items(), *module._forward_hooks.items()]:
            always.pop(ident, None)
            if ident in module._forward_hooks_with_kwargs or ident in every.hooks_with_kwargs:
                found = hook(module, args, kwargs, result)
            else:
                found = hook(module, args, result)
            if found is not None:
                result = found
        if backward:
            single = not isinstance(result, (tuple, list))
            outputs, _ = _tap((result,) if single else tuple(result), backward.at_outputs)
            result = outputs[0] if single else type(result)(outputs)
        return result
    except Exception:
        for ident in always:  # run those that have not run yet
            hook = module._forward_hooks.get(ident) or every.forward_hooks.get(ident)
            if hook is not None:
                if ident in module._forward_hooks_with_kwargs or ident in every.hooks_with_kwargs:
                    hook(module, args, kwargs, result)
                else:
                    hook(module, args, result)
        raise
