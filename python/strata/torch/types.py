"""torch.types: names for type annotations."""

import builtins
from collections.abc import Sequence
from typing import Any

from .. import _C

Tensor, Generator = _C.Tensor, _C.Generator
Number = builtins.int | builtins.float | builtins.bool
Device = _C.device | str | builtins.int | None
_int, _float, _bool, _dtype, _device, _size = (
    builtins.int,
    builtins.float,
    builtins.bool,
    _C.dtype,
    _C.device,
    Sequence[builtins.int],
)
Storage = Any
FileLike = Any


class layout(str):
    """The type of torch.strided: a string here."""


class memory_format(str):
    """The type of torch.channels_last: a string here."""
