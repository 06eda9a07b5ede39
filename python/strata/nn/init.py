"""Initial values of parameters, as in torch.nn.init: each fills its tensor in place and returns it."""

from .. import _C
from ._support import calculate_gain

_ops = {
    name.removeprefix("nn.init."): op for name, op in _C.ops.items() if name.startswith("nn.init.") and not op.internal
}
globals().update(_ops)

__all__ = list(_ops)
__all__ += ["calculate_gain"]


def _calculate_fan_in_and_fan_out(tensor):
    """The inputs and outputs of each unit of a weight: products of sizes."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = tensor[0][0].numel()
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def __getattr__(name):  # the older names without an underscore
    if f"{name}_" in _ops and not name.startswith("_"):
        return _ops[f"{name}_"]
    raise AttributeError(f"module 'strata.nn.init' has no attribute {name!r}")
