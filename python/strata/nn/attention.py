"""Multi-head attention as one function, as torch.nn.functional has it."""

import math

from .. import _C

_ops = _C.ops


def _as_bias(mask, dtype):
    """A boolean mask (True: hidden) as numbers to add to scores."""
    if mask is None or mask.is_floating_point():
        return mask
    return _ops["zeros"](mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


def _project(query, key, value, weight, bias):
    """The three input projections from one packed weight."""
    linear = _ops["nn.functional.linear"]
    if key is value and query is key:
        return linear(query, weight, bias).chunk(3, -1)
    weights = weight.chunk(3)
    biases = bias.chunk(3) if bias is not None else (None, None, None)
    return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


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
    """Attention of several heads: projections, softmax(q @ k.T) @ v per head, output projection. Returns (output, weights)."""
    linear, cat, pad = _ops["nn.functional.linear"], _ops["cat"], _ops["nn.functional.pad"]
    if query.dim() not in (2, 3):
        raise RuntimeError(f"multi_head_attention_forward: expected a 2D or 3D query, got shape {list(query.shape)}")
    batched = query.dim() == 3
    if not batched:
        same_kv, same_q = key is value, query is key
        query = query.unsqueeze(1)
        key = query if same_q else key.unsqueeze(1)
        value = key if same_kv else value.unsqueeze(1)
        key_padding_mask = key_padding_mask.unsqueeze(0) if key_padding_mask is not None else None
    steps, batch, width = query.shape
    if width != embed_dim_to_check:
        raise RuntimeError(
            f"multi_head_attention_forward: was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
        )
    head = width // num_heads
    if head * num_heads != width:
        raise RuntimeError(f"multi_head_attention_forward: embed_dim {width} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise RuntimeError("multi_head_attention_forward: need attn_mask if specifying the is_causal hint")
    if use_separate_proj_weight:
        biases = in_proj_bias.chunk(3) if in_proj_bias is not None else (None, None, None)
        parts = zip((query, key, value), (q_proj_weight, k_proj_weight, v_proj_weight), biases, strict=True)
        q, k, v = (linear(x, w, b) for x, w, b in parts)
    else:
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _as_bias(attn_mask, q.dtype)
    if attn_mask is not None and attn_mask.dim() == 2:
        attn_mask = attn_mask.unsqueeze(0)
    key_padding_mask = _as_bias(key_padding_mask, q.dtype)

    def longer(mask):
        return pad(mask, (0, 1)) if mask is not None else None

    if bias_k is not None and bias_v is not None:
        k, v = cat([k, bias_k.repeat(1, batch, 1)]), cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = longer(attn_mask), longer(key_padding_mask)
    q = q.reshape(steps, batch * num_heads, head).transpose(0, 1)
    k = static_k if static_k is not None else k.reshape(k.shape[0], batch * num_heads, head).transpose(0, 1)
    v = static_v if static_v is not None else v.reshape(v.shape[0], batch * num_heads, head).transpose(0, 1)
    if add_zero_attn:
        zero = _ops["zeros"]((batch * num_heads, 1, head), dtype=k.dtype)
        k, v = cat([k, zero], 1), cat([v, zero], 1)
        attn_mask, key_padding_mask = longer(attn_mask), longer(key_padding_mask)
    source = k.shape[1]
    if key_padding_mask is not None:
        rows = (
            key_padding_mask.reshape(batch, 1, 1, source)
            .expand(-1, num_heads, -1, -1)
            .reshape(batch * num_heads, 1, source)
        )
        attn_mask = rows if attn_mask is None else attn_mask + rows
    dropout_p = dropout_p if training else 0.0

    weights = None
    if need_weights:
        scores = _ops["bmm"](q * math.sqrt(1.0 / head), k.transpose(-2, -1))
        if attn_mask is not None:
            scores = scores + attn_mask
        weights = _ops["softmax"](scores, -1)
        if dropout_p > 0:
            weights = _ops["nn.functional.dropout"](weights, dropout_p)
        out = _ops["bmm"](weights, v)
    else:
        out = _ops["nn.functional.scaled_dot_product_attention"](q, k, v, attn_mask, dropout_p)
    out = linear(out.transpose(0, 1).reshape(steps * batch, width), out_proj_weight, out_proj_bias).reshape(
        steps, batch, out_proj_weight.shape[0]
    )
    if weights is not None:
        weights = weights.reshape(batch, num_heads, steps, source)
        weights = weights.mean(dim=1) if average_attn_weights else weights
    if not batched:
        out, weights = out.squeeze(1), weights.squeeze(0) if weights is not None else None
    return out, weights
