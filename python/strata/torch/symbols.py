"""PyTorch's functions of sizes that a compiler may not know, and its control flow. Here all sizes are numbers: they run at once."""

import math


def sym_int(a):
    """The integer nearest to a in the direction of zero."""
    return int(a)


def sym_float(a):
    """a as a float."""
    return float(a)


def sym_not(a):
    """Not a."""
    return not a


def sym_max(a, b):
    """The larger of two numbers: a float if one of them is one."""
    return (float if isinstance(a, float) or isinstance(b, float) else int)(max(a, b))


def sym_min(a, b):
    """The smaller of two numbers: a float if one of them is one."""
    return (float if isinstance(a, float) or isinstance(b, float) else int)(min(a, b))


def sym_sum(args):
    """The sum."""
    return sum(args)


def sym_sqrt(a):
    """The square root."""
    return math.sqrt(a)


def sym_ite(b, t, f):
    """t if b, else f."""
    return t if b else f


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands), by a bool or a tensor with one element."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Replaces carried_inputs by body_fn(*carried_inputs) as long as cond_fn(*carried_inputs) is true; returns the last ones."""
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        found = body_fn(*values)
        values = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    return values
