"""The base of tensors without memory of their own, which hold their elements in another tensor."""

from . import _C


class HoldingTensor(_C.Tensor):
    """What is asked about memory and history is answered by the tensor `_held`."""

    @property
    def device(self):
        return self._held.device

    @property
    def is_meta(self):
        return self._held.is_meta

    @property
    def is_cuda(self):
        return self._held.is_cuda

    @property
    def is_cpu(self):
        return self._held.is_cpu

    @property
    def is_leaf(self):
        return self._held.is_leaf

    @property
    def grad_fn(self):
        return self._held.grad_fn

    @property
    def requires_grad(self):
        return self._held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._held.requires_grad = value

    @property
    def data(self):
        return self.detach()

    def requires_grad_(self, requires_grad=True):
        """Sets whether gradients are recorded, and returns the tensor."""
        self._held.requires_grad_(requires_grad)
        return self
