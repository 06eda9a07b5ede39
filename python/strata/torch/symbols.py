"""PyTorch's functions of sizes that a compiler may not know. Here all sizes are numbers: they run at once."""

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
