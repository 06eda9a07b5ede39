"""Discrete Fourier transforms, as in torch.fft."""

from . import _C

globals().update(
    {name.removeprefix("fft."): op for name, op in _C.ops.items() if name.startswith("fft.") and not op.internal}
)

__all__ = [name for name in globals() if not name.startswith("_")]
