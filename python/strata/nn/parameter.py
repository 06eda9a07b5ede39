"""Parameter: a tensor that modules and optimizers know to be trained."""

from .. import _C


class Parameter(_C.Tensor):
    """A leaf tensor that requires a gradient unless told otherwise."""

    def __new__(cls, data=None, requires_grad=True):
        return _C.Tensor._make_subclass(cls, _C.tensor([]) if data is None else data, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()
