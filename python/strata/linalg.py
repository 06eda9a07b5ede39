"""Linear algebra, as in torch.linalg."""

from . import _C

globals().update(
    {name.removeprefix("linalg."): op for name, op in _C.ops.items() if name.startswith("linalg.") and not op.internal}
)


class LinAlgError(RuntimeError):
    """Raised for a matrix that has no such decomposition."""


__all__ = [name for name in globals() if not name.startswith("_")]
