# Types of parameter.py.
from collections.abc import Sequence

from typing_extensions import Self

from .._C import Tensor
from .._C import device as _device
from .._C import dtype as _dtype

class Parameter(Tensor):
    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self: ...

class Buffer(Tensor):
    persistent: bool
    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self: ...

class UninitializedTensorMixin:
    def materialize(
        self, shape: Sequence[int], device: _device | str | None = None, dtype: _dtype | None = None
    ) -> None: ...

class UninitializedParameter(UninitializedTensorMixin, Parameter):
    def __new__(  # type: ignore[misc]
        cls, requires_grad: bool = True, device: _device | str | None = None, dtype: _dtype | None = None
    ) -> Self: ...

class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    def __new__(  # type: ignore[misc]
        cls, device: _device | str | None = None, dtype: _dtype | None = None, persistent: bool = True
    ) -> Self: ...

def is_lazy(tensor: object) -> bool: ...
