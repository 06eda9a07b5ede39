"""Special functions, as in torch.special."""

from . import _C

globals().update(
    {
        name.removeprefix("special."): op
        for name, op in _C.ops.items()
        if name.startswith("special.") and not op.internal
    }
)
__all__ = [name for name in globals() if not name.startswith("_")]
