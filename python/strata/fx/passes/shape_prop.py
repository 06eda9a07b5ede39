"""ShapeProp: runs a graph and notes shape, dtype and strides of every value."""

from typing import Any, NamedTuple

from ... import _C
from ..interpreter import Interpreter
from ..node import map_aggregate


class TensorMetadata(NamedTuple):
    """What a graph knows of a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result, include_contiguity=True):
    """The metadata of a tensor."""
    memory_format = None
    if include_contiguity:
        for name in ("contiguous_format", "channels_last", "channels_last_3d"):
            if result.is_contiguous(memory_format=name):
                memory_format = name
                break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, tuple(result.stride()), memory_format, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a module on example inputs; node.meta["tensor_meta"] gets TensorMetadata, node.meta["type"] the type."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp(fake_mode=...) is not in this version; pass inputs on the device meta")
        self.real_module = gm

    def run_node(self, n):
        """The node's value, with its metadata noted."""
        result = super().run_node(n)
        found = []

        def describe(value):
            if not isinstance(value, _C.Tensor):
                return value
            found.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, describe)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the module."""
        return super().run(*args)
