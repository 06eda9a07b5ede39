"""torch._higher_order_ops: control flow. The ops of torch.ops.higher_order take tensors from outside as further arguments."""

import sys
import types

from .._control_flow import cond, scan, while_loop

__all__ = ["cond", "scan", "while_loop"]


class _Functions(types.ModuleType):
    """Importing torch._higher_order_ops.scan, a file of PyTorch, does not replace the function of that name."""

    def __setattr__(self, name, value):
        if name not in __all__ or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Functions


class HigherOrder:
    """torch.ops.higher_order."""

    @staticmethod
    def cond(pred, true_fn, false_fn, operands=()):
        return cond(pred, true_fn, false_fn, operands)

    @staticmethod
    def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
        more = tuple(additional_inputs)
        return while_loop(lambda *carried: cond_fn(*carried, *more), lambda *c: body_fn(*c, *more), carried_inputs)

    @staticmethod
    def scan(combine_fn, init, xs, additional_inputs=()):
        """The functions of this form take and return flat lists."""
        more, count = tuple(additional_inputs), len(init)

        def combine(carry, x):
            results = combine_fn(*carry, *x, *more)
            return list(results[:count]), list(results[count:])

        carry, ys = scan(combine, list(init), list(xs))
        return [*carry, *ys]
