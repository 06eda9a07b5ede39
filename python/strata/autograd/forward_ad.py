"""Forward-mode differentiation: tensors that carry a tangent, which every function passes on.

    with forward_ad.dual_level():
        x = forward_ad.make_dual(primal, tangent)
        print(forward_ad.unpack_dual(f(x)).tangent)  # the derivative of f along the tangent

A function's derivative along a tangent is taken from its gradient: the gradient is linear in the vector that is passed
back, so its own gradient for that vector, along the tangents of the inputs, is the tangent of the result. Every function
that can be differentiated twice has a forward mode this way.
"""

import collections

from .. import _C
from . import enable_grad, grad, no_grad

__all__ = [
    "DualTensor",
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

UnpackedDualTensor = collections.namedtuple("UnpackedDualTensor", ["primal", "tangent"])
_level = None  # an object while a level is active


class DualTensor(_C.Tensor):
    """A tensor with a tangent; without one after its level has ended."""

    _tangent = _of_level = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with _C.DisableTorchFunctionSubclass():
            return _forward(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        primal, tangent = unpack_dual(self)
        text = repr(primal)
        return text if tangent is None else f"{text[:-1]}, tangent={tangent!r})"


def _plain(t):
    """The tensor itself as a plain one; gradients flow through it."""
    return _C._as_subclass(t, _C.Tensor) if type(t) is DualTensor else t


def _tangent_of(t):
    return t._tangent if isinstance(t, DualTensor) and t._of_level is _level and _level is not None else None


def _dual(primal, tangent):
    made = _C._as_subclass(primal, DualTensor)
    made._tangent, made._of_level = tangent, _level
    return made


def _forward(func, args, kwargs):
    """Runs func on plain tensors, and gives its results their tangents."""
    from ..utils import _pytree

    leaves, spec = _pytree.tree_flatten((list(args), kwargs))
    at = [i for i, x in enumerate(leaves) if _tangent_of(x) is not None]
    name = getattr(func, "__name__", "")
    written = args[0] if at and name.endswith("_") and not name.endswith("__") else None
    if not at:
        given, kwargs = _pytree.tree_unflatten([_plain(x) if isinstance(x, _C.Tensor) else x for x in leaves], spec)
        return func(*given, **kwargs)
    with enable_grad():
        plain = [_plain(x) if isinstance(x, _C.Tensor) else x for x in leaves]
        for i in at:
            recorded = plain[i].requires_grad
            plain[i] = plain[i].view_as(plain[i]) if recorded else plain[i].detach().requires_grad_()
        inputs = [plain[i] for i in at]
        if isinstance(written, _C.Tensor):  # func writes to a copy, so that its input stays what it was
            plain[0] = plain[0].clone()
        given, kwargs = _pytree.tree_unflatten(plain, spec)
        result = func(*given, **kwargs)
        named = type(result) if isinstance(result, tuple) and type(result) is not tuple else None  # values and indices
        results, result_spec = _pytree.tree_flatten(tuple(result) if named else result)
    tangents = [_tangent_of(leaves[i]) for i in at]
    outside = any(isinstance(x, _C.Tensor) and x.requires_grad for x in [*leaves, *tangents])
    done = [_with_tangent(y, inputs, tangents, outside) for y in results]
    if isinstance(written, _C.Tensor):
        return _write(written, done[0])
    done = _pytree.tree_unflatten(done, result_spec)
    return named(done) if named else done


def _with_tangent(y, inputs, tangents, outside):
    if not isinstance(y, _C.Tensor) or not y.requires_grad:
        return y
    with enable_grad():
        vector = y.new_zeros(y.shape).requires_grad_()
        slopes = grad(y, inputs, vector, create_graph=True, retain_graph=True, allow_unused=True)
        used = [(s, t) for s, t in zip(slopes, tangents, strict=True) if s is not None and s.requires_grad]
        tangent = None
        if used:
            (tangent,) = grad(
                [s for s, _ in used], [vector], [t for _, t in used], create_graph=True, allow_unused=True
            )
    if tangent is None:
        tangent = y.new_zeros(y.shape)
    return _dual(y, tangent) if outside else _dual(y.detach(), tangent.detach())


def _write(target, result):
    """Puts the result of an in-place function into the tensor it was called on."""
    with no_grad():
        _plain(target).copy_(_plain(result))
    if isinstance(target, DualTensor):
        target._tangent, target._of_level = result._tangent, _level
        return target
    return _dual(target, result._tangent)


class dual_level:
    """A with block in which make_dual() can be called. Levels cannot be nested; tangents end with their level."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *_):
        exit_dual_level()


def enter_dual_level():
    """Begins a level; see dual_level."""
    global _level
    if _level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _level = object()
    return 0


def exit_dual_level(*, level=None):
    """Ends the level: the tangents of its tensors are gone."""
    global _level
    if _level is None:
        raise RuntimeError("Trying to exit a forward AD level but no level is active; use dual_level()")
    _level = None


def make_dual(tensor, tangent, *, level=None):
    """A view of the tensor that carries a tangent of its shape and dtype."""
    if _level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not tensor.is_floating_point() and not tensor.is_complex():
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not isinstance(tangent, _C.Tensor) or tangent.shape != tensor.shape or tangent.dtype != tensor.dtype:
        found = (
            f"{tangent.dtype} of shape {list(tangent.shape)}"
            if isinstance(tangent, _C.Tensor)
            else type(tangent).__name__
        )
        raise RuntimeError(
            f"make_dual: expected a tangent of {tensor.dtype} and shape {list(tensor.shape)}, got {found}"
        )
    with _C.DisableTorchFunctionSubclass():
        return _dual(_plain(tensor), _plain(tangent))


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a tensor; the tangent is None without one."""
    with _C.DisableTorchFunctionSubclass():
        return UnpackedDualTensor(_plain(tensor), _tangent_of(tensor))
