"""Functions of neural networks, as in torch.nn.functional."""

from .. import _C, _variants

globals().update({name.removeprefix("nn.functional."): op for name, op in _C.ops.items() if name.startswith("nn.functional.")})
globals().update(_variants.NN_FUNCTIONS)
__all__ = [name for name in globals() if not name.startswith("_")]
