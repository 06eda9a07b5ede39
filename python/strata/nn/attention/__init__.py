"""Attention: multi-head attention as one function, as torch.nn.functional has it; with keys in pages; and, in varlen.py, of sequences
of different lengths."""

import contextlib
import enum

from ... import _C

_attention = _C.ops["_multi_head_attention"]
paged_attention = _C.ops["nn.functional.paged_attention"]


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Multi-head attention: projections, softmax(q @ k.T) @ v per head, output projection. Returns (output, weights)."""
    if query.dim() in (2, 3) and query.shape[-1] != embed_dim_to_check:
        raise RuntimeError(
            f"multi_head_attention_forward: was expecting embedding dimension of {embed_dim_to_check}, but got {query.shape[-1]}"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError("multi_head_attention_forward: need attn_mask if specifying the is_causal hint")
    weights = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else [in_proj_weight]
    out, attention = _attention(
        query,
        key,
        value,
        num_heads,
        [*weights, in_proj_bias],
        [out_proj_weight, out_proj_bias],
        [bias_k, bias_v],
        [static_k, static_v],
        add_zero_attn,
        dropout_p if training else 0.0,
        key_padding_mask,
        attn_mask,
        need_weights,
        average_attn_weights,
    )
    return out, attention if need_weights else None


class SDPBackend(enum.Enum):
    """PyTorch's kernels of attention. Strata chooses its own by the shapes; `explain` tells which."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """A with block or decorator that changes nothing: kernels are chosen by the shapes, and give the same results."""
    found = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not found or not all(isinstance(b, SDPBackend) for b in found):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield {}
