"""Batches with padding as nested tensors: when TransformerEncoder computes only the rows that are not padding, as PyTorch does,
and the result has zeros in the others."""

from .. import _C, backends
from ..nested import NestedTensor, nested_tensor_from_jagged


def why_not_nested(layer):
    """The reason, in PyTorch's words, why an encoder of such layers does not drop padding; None if it may."""
    from .transformer import TransformerEncoderLayer

    name = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{name} was not TransformerEncoderLayer"
    attention = layer.self_attn
    if layer.norm_first:
        return f"{name}.norm_first was True"
    if not attention.batch_first:
        return f"{name}.self_attn.batch_first was not True(use batch_first for better inference performance)"
    if not attention._qkv_same_embed_dim:
        return f"{name}.self_attn._qkv_same_embed_dim was not True"
    if attention.in_proj_bias is None:
        return f"{name}.self_attn was passed bias=False"
    if not layer.activation_relu_or_gelu:
        return f"{name}.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return f"{name}.norm1.eps was not equal to {name}.norm2.eps"
    if attention.num_heads % 2 == 1:
        return f"{name}.self_attn.num_heads is odd"
    return None


def _records_gradients(tensors):
    return _C.is_grad_enabled() and any(t.requires_grad for t in tensors)


def without_padding(encoder, src, mask, padding):
    """The rows of src that are not padding as a nested tensor; None where PyTorch computes all rows."""
    layer = encoder.layers[0]
    if padding is None or mask is not None or layer.training or not backends.mha.get_fastpath_enabled():
        return None
    if isinstance(src, NestedTensor) or src.dim() != 3 or src.is_meta:
        return None
    if _C._is_autocast_enabled(src.device.type) or _C._has_override((src, *layer.parameters())):
        return None
    if _records_gradients((src, *layer.parameters())) or padding.shape != src.shape[:2]:
        return None
    valid = padding == 0
    lengths = valid.sum(1)
    aligned = valid == (_C.ops["arange"](src.shape[1], device=src.device) < lengths.unsqueeze(1))
    if encoder.mask_check and not bool(aligned.all()):
        return None
    return nested_tensor_from_jagged(src[valid], lengths=lengths)
