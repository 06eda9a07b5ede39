"""Parameter and Buffer: tensors that modules register on assignment; and parameters whose shape is not known yet."""

from .. import _C


class Parameter(_C.Tensor):
    """A leaf tensor that requires a gradient by default."""

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad=True):
        return _C.Tensor._make_subclass(cls, _C.tensor([]) if data is None else data, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


_C._set_parameter_type(Parameter)


class Buffer(_C.Tensor):
    """A tensor that becomes a module's buffer when it is assigned to an attribute."""

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data=None, *, persistent=True):
        made = _C.Tensor._make_subclass(cls, _C.tensor([]) if data is None else data, False)
        made.persistent = persistent
        return made


class UninitializedTensorMixin:
    """A tensor without a shape until materialize()."""

    def materialize(self, shape, device=None, dtype=None):
        """Gives it a shape and uninitialized memory."""
        self.data = _C.ops["empty"](tuple(shape), dtype=dtype or self.dtype, device=device)
        self.__class__ = self.cls_to_become

    def __repr__(self):
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter that gets its shape from the first input: see the Lazy modules."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return _C.Tensor._make_subclass(cls, _C.ops["empty"]((0,), dtype=dtype, device=device), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer that gets its shape from the first input."""

    cls_to_become = Buffer

    def __new__(cls, device=None, dtype=None, persistent=True):
        made = _C.Tensor._make_subclass(cls, _C.ops["empty"]((0,), dtype=dtype, device=device), False)
        made.persistent = persistent
        return made


def is_lazy(tensor):
    """Whether a tensor still has no shape."""
    return isinstance(tensor, UninitializedTensorMixin)
