"""Tensors with a mask: elements whose mask is false are unspecified, and take no part in reductions."""

from .. import _C
from .._held import HoldingTensor

ops, Tensor = _C.ops, _C.Tensor


class MaskedTensor(HoldingTensor):
    """A tensor and a mask of its shape, true where an element is specified. masked_tensor() makes one."""

    _kind, _instead = "masked", "to_tensor(value) or get_data()"
    _of_the_object = HoldingTensor._of_the_object | {"is_sparse"}

    @property
    def grad(self):
        grad = self._held.grad
        return None if grad is None else _object(grad, self._mask)

    @property
    def layout(self):
        return "strided"

    def get_data(self):
        """The elements, those that are unspecified too."""
        return self._held

    def get_mask(self):
        """Where elements are specified."""
        return self._mask

    def to_tensor(self, value):
        """A plain tensor with the value in place of unspecified elements."""
        return self._held.masked_fill(~self._mask, value)

    def detach(self):
        """The same elements without history."""
        return _object(self._held.detach(), self._mask)

    def clone(self, **_):
        """A copy, through which gradients flow."""
        return _object(self._held.clone(), self._mask.clone())

    def to(self, *args, **kwargs):
        """On another device or in another dtype, as Tensor.to()."""
        held = self._held.to(*args, **kwargs)
        return _object(held, self._mask.to(held.device))

    def backward(self, gradient=None, **kwargs):
        """backward() of the elements."""
        self._held.backward(gradient._held if isinstance(gradient, MaskedTensor) else gradient, **kwargs)

    def __len__(self):
        return len(self._held)

    def __bool__(self):
        if self.numel() != 1 or not bool(self._mask.reshape(())):
            raise RuntimeError("the truth of a masked tensor is defined for one specified element only")
        return bool(self._held.reshape(()))

    def tolist(self):
        """Nested lists with None for unspecified elements."""

        def merged(data, mask):
            if isinstance(data, list):
                return [merged(d, m) for d, m in zip(data, mask, strict=True)]
            return data if mask else None

        return merged(self._held.detach().tolist(), self._mask.tolist())

    def __repr__(self, *, tensor_contents=None):
        def shown(value, depth):
            if not isinstance(value, list):
                text = "--" if value is None else f"{value:8.4f}" if isinstance(value, float) else str(value)
                return text.rjust(8)
            if any(isinstance(v, list) for v in value):
                pad = "  " * depth
                return "[\n" + ",\n".join(f"{pad}  {shown(v, depth + 1)}" for v in value) + f"\n{pad}]"
            return "[" + ", ".join(shown(v, depth) for v in value) + "]"

        if self.dim() == 0:
            return f"MaskedTensor({shown(self.tolist(), 0)}, {bool(self._mask)})"
        return f"MaskedTensor(\n  {shown(self.tolist(), 1)}\n)"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        return _unpickled, (self._held.detach(), self._mask, self.requires_grad)

    @classmethod
    def _run(cls, name, func, args, kwargs):
        from ._functions import run

        return run(name, func, args, kwargs)


def _object(held, mask):
    base = ops["empty"](tuple(held.shape), dtype=held.dtype, device="meta")
    made = Tensor._make_subclass(MaskedTensor, base, False)
    made._held, made._mask = held, mask
    return made


def _unpickled(held, mask, requires_grad):
    return _object(held, mask).requires_grad_(requires_grad)


def _checked(data, mask):
    for value in (data, mask):
        if not isinstance(value, Tensor) or isinstance(value, MaskedTensor):
            raise TypeError(f"masked_tensor: expected plain Tensors, got {type(value).__name__}")
    if mask.dtype is not _C.bool:
        raise TypeError(f"masked_tensor: expected a mask of bools, got {mask.dtype}")
    if tuple(mask.shape) != tuple(data.shape):
        raise ValueError(f"masked_tensor: data has shape {list(data.shape)}, mask {list(mask.shape)}")


def masked_tensor(data, mask, requires_grad=False):
    """A tensor of which only the elements with a true mask are specified; it has no history.

    >>> strata.masked.masked_tensor(strata.tensor([1.0, 2.0]), strata.tensor([True, False])).sum().get_data()
    tensor(1.)
    """
    _checked(data, mask)
    return _object(data.detach().clone(), mask.detach().clone()).requires_grad_(requires_grad)


def as_masked_tensor(data, mask):
    """The same, to whose data gradients flow."""
    _checked(data, mask)
    return _object(data, mask)


def is_masked_tensor(obj, /):
    """Whether obj is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)
