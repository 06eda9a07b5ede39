"""The base of tensors without memory of their own, which hold their elements in another tensor."""

from . import _C


class HoldingTensor(_C.Tensor):
    """What is asked about memory and history is answered by the tensor `_held`.

    A class has `_kind` and `_instead`, the words of its errors, and `_run(name, func, args, kwargs)`, which computes a
    function, method or property of that name."""

    # What an object without memory answers itself.
    _of_the_object = frozenset(
        "shape dtype ndim itemsize names is_nested is_quantized is_xla is_xpu is_mps is_vgpu size dim numel nelement "
        "ndimension element_size is_floating_point is_complex is_signed __hash__".split()
    )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        if name == "__get__":  # of a property
            name = func.__self__.__name__
        if name in cls._of_the_object:
            with _C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        return cls._run(name, func, args, kwargs or {})

    def numpy(self, *, force=False):
        """Raises: an array has no such form."""
        raise TypeError(f"can't convert a {self._kind} tensor to numpy; use {self._instead} first")

    def __array__(self, *args, **kwargs):
        return self.numpy()

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
