"""DLPack: arrays shared with other libraries."""

from .._functions import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
