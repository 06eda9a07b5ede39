"""torch.ao.nn.quantized: layers with quantized weights."""

from . import dynamic

__all__ = ["dynamic"]
