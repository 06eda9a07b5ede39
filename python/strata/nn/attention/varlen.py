"""Attention of sequences of different lengths, with the names of torch.nn.attention.varlen."""

from typing import NamedTuple

from ... import _C

_attention = _C.ops["_varlen_attn"]

__all__ = ["AuxRequest", "varlen_attn"]


class AuxRequest(NamedTuple):
    """What varlen_attn returns besides its result: lse, the logarithm of each row's sum of exponentials."""

    lse: bool = False


def varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
):
    """nn.functional.varlen_attn; with return_aux=AuxRequest(lse=True) also the logarithms, [heads, rows]."""
    out, lse = _attention(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale, list(window_size), bool(enable_gqa)
    )
    return (out, lse) if return_aux is not None and return_aux.lse else out
