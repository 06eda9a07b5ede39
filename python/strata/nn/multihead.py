"""Multi-head attention as a module."""

from .. import _C
from . import functional as F
from . import init
from ._modules import Linear
from .attention import multi_head_attention_forward
from .module import Module
from .parameter import Parameter


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of MultiheadAttention, under the name that PyTorch prints."""


class MultiheadAttention(Module):
    """Multi-head attention with learned projections: forward(query, key, value) returns (output, weights)."""

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads} instead")
        if embed_dim % num_heads != 0:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self.head_dim = embed_dim // num_heads

        def made(*shape):
            return Parameter(_C.ops["empty"](shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", made(3 * embed_dim, embed_dim) if same else None)
        self.register_parameter("q_proj_weight", None if same else made(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if same else made(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if same else made(embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", made(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", made(1, 1, embed_dim) if add_bias_kv else None)
        self.register_parameter("bias_v", made(1, 1, embed_dim) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
            init.xavier_normal_(self.bias_v)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        """Inputs are [steps, batch, features], with batch_first [batch, steps, features], or without a batch."""
        if query.is_nested:
            if need_weights or attn_mask is not None or key_padding_mask is not None:
                raise NotImplementedError(
                    "MultiheadAttention: nested tensors take no masks and return no weights; pass need_weights=False"
                )
            return self._attend_nested(query, key, value, is_causal), None
        turn = self.batch_first and query.dim() == 3
        if turn:
            same_kv, same_q = value is key, key is query
            query = query.transpose(0, 1)
            key = query if same_q else key.transpose(0, 1)
            value = key if same_kv else value.transpose(0, 1)
        out, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if turn else out), weights

    def _attend_nested(self, query, key, value, is_causal):
        """Each component attends to its own rows; nothing is computed for padding."""
        if not (self.batch_first and self._qkv_same_embed_dim) or self.bias_k is not None or self.add_zero_attn:
            raise NotImplementedError(
                "MultiheadAttention: nested tensors need batch_first=True, keys and values of embed_dim features, and "
                "neither add_bias_kv nor add_zero_attn; use to_padded_tensor() and key_padding_mask"
            )
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if query is key and key is value:
            parts = F.linear(query, weight, bias).chunk(3, -1)
        else:
            biases = (None, None, None) if bias is None else bias.chunk(3)
            parts = [F.linear(*part) for part in zip((query, key, value), weight.chunk(3), biases, strict=True)]
        heads = [p.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for p in parts]
        out = F.scaled_dot_product_attention(
            *heads, dropout_p=self.dropout if self.training else 0.0, is_causal=is_causal
        )
        return self.out_proj(out.transpose(1, 2).flatten(2))
