"""torch.ao.nn: the layers that quantization makes."""

from . import quantized

__all__ = ["quantized"]
