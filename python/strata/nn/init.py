"""Initial values of parameters, as in torch.nn.init: each fills its tensor in place and returns it."""

from .. import _C
from ._support import calculate_gain

_ops = {
    name.removeprefix("nn.init."): op for name, op in _C.ops.items() if name.startswith("nn.init.") and not op.internal
}
globals().update(_ops)

__all__ = list(_ops)
__all__ += ["calculate_gain"]
