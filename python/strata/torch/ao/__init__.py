"""torch.ao: dynamic quantization; see quantization."""

from . import nn, quantization

__all__ = ["nn", "quantization"]
