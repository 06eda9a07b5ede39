"""torch._foreach_*: one op on each tensor of a list. Strata's own optimizers use a fused step instead."""

from .. import _C

PREFIX = "_foreach_"


def _arguments(place, args):
    """The arguments for one tensor: the element of each list at its place, and the other arguments as they are."""
    return [a[place] if isinstance(a, (list, tuple)) else a for a in args]


def _function(name):
    if name == "norm":
        return _C.ops["linalg.vector_norm"]
    if name.rstrip("_") in ("addcdiv", "addcmul"):  # whose fourth argument has a name otherwise
        method = getattr(_C.Tensor, name)
        return lambda x, a, b, value=1: method(x, a, b, value=value)
    return _C.ops.get(name) or getattr(_C.Tensor, name, None)


def find(name):
    """The function _foreach_<op> or _foreach_<op>_; raises AttributeError if there is no such op."""
    op = name.removeprefix(PREFIX)
    function = None if op.startswith("_") else _function(op)
    if function is None:
        raise AttributeError(f"module 'torch' has no attribute {name!r}")

    def foreach(self, *args, **kwargs):
        tensors = list(self)
        for a in args:
            if isinstance(a, (list, tuple)) and len(a) != len(tensors):
                raise RuntimeError(
                    f"{name}: expected lists of one length, found {len(tensors)} tensors and a list of {len(a)}"
                )
        made = [function(t, *_arguments(place, args), **kwargs) for place, t in enumerate(tensors)]
        return None if op.endswith("_") else made

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"{op} of each tensor of a list."
    return foreach
