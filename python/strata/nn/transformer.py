"""Transformer: encoder, decoder, their layers, and both together."""

import copy
import math
import warnings

from .. import _C
from . import functional as F
from . import init
from ._layer_count import check_layers
from ._modules import GELU, Dropout, LayerNorm, Linear, ReLU
from ._padding import why_not_nested, without_padding
from .containers import ModuleList
from .module import Module
from .multihead import MultiheadAttention


def _activation(activation):
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _clones(module, n, owner):
    check_layers(n, owner)
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _is_causal(mask, hint):
    """Whether a mask is causal; a given hint is trusted."""
    if hint is not None or mask is None:
        return bool(hint)
    size = mask.shape[-1]
    if mask.is_meta or mask.dim() != 2 or mask.shape[0] != size:
        return False
    ahead = Transformer.generate_square_subsequent_mask(size, device=mask.device, dtype=mask.dtype)
    return bool((mask == ahead).all())


class _Layer(Module):
    """The feed-forward part of encoder and decoder layers."""

    def _build(self, d_model, dim_feedforward, dropout, activation, eps, norms, batch_first, norm_first, bias, made):
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        for i in range(1, norms + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=eps, bias=bias, **made))
        for i in range(1, norms + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)
        kinds = ((F.relu, ReLU), (F.gelu, GELU))
        found = [self.activation is f or isinstance(self.activation, module) for f, module in kinds]
        self.activation_relu_or_gelu = 1 if found[0] else 2 if found[1] else 0  # PyTorch's name for these numbers

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a layer norm."""

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-05,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made)
        self._build(
            d_model, dim_feedforward, dropout, activation, layer_norm_eps, 2, batch_first, norm_first, bias, made
        )

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self.dropout2(self._feed_forward(self.norm2(x)))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self.dropout2(self._feed_forward(x)))

    def _attend(self, x, mask, padding, is_causal):
        x = self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal)[
            0
        ]
        return self.dropout1(x)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network."""

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-05,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        options = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **made}
        self.self_attn = MultiheadAttention(d_model, nhead, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **options)
        self._build(
            d_model, dim_feedforward, dropout, activation, layer_norm_eps, 3, batch_first, norm_first, bias, made
        )

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            h = self.norm1(x)
            x = x + self.dropout1(self._attend(self.self_attn, h, h, *own))
            x = x + self.dropout2(self._attend(self.multihead_attn, self.norm2(x), memory, *other))
            return x + self.dropout3(self._feed_forward(self.norm3(x)))
        x = self.norm1(x + self.dropout1(self._attend(self.self_attn, x, x, *own)))
        x = self.norm2(x + self.dropout2(self._attend(self.multihead_attn, x, memory, *other)))
        return self.norm3(x + self.dropout3(self._feed_forward(x)))

    @staticmethod
    def _attend(attention, x, memory, mask, padding, is_causal):
        return attention(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )[0]


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other.

    With enable_nested_tensor, rows of padding are not computed where PyTorch skips them: in eval mode, without gradients, if
    src_key_padding_mask marks only rows at the ends and there is no other mask. They are zero then, before `norm`."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers, "TransformerEncoder")
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor = self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        if enable_nested_tensor and (reason := why_not_nested(encoder_layer)):
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}", stacklevel=2
            )
            self.use_nested_tensor = False

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        causal = _is_causal(mask, is_causal)
        rows = without_padding(self, src, mask, src_key_padding_mask) if self._skips_padding() else None
        out, padding = (src, src_key_padding_mask) if rows is None else (rows, None)
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if rows is not None:
            out = out.to_padded_tensor(0.0, src.shape)
        return out if self.norm is None else self.norm(out)

    def _skips_padding(self):
        return getattr(self, "use_nested_tensor", False)  # absent in modules that older versions saved


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers, "TransformerDecoder")
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder: forward(src, tgt)."""

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-05,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        common = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*common, **made), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*common, **made), num_decoder_layers, norm())
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batched = src.dim() == 3
        if batched and src.shape[1 - self.batch_first] != tgt.shape[1 - self.batch_first]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """A causal mask [sz, sz]: -inf above the diagonal, 0 elsewhere."""
        return _C.ops["full"]((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)
