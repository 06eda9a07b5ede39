"""Sparse tensors: coordinates (COO) and matrices in compressed rows or columns, of elements (CSR, CSC) or blocks (BSR, BSC).
Functions of torch.sparse by their names."""

from ._create import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from ._functions import addmm, hspmm, log_softmax, mm, sampled_addmm, smm, softmax, spmm, sum
from ._shapes import spdiags
from ._tensor import SparseTensor

_OLDER = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
}


def __getattr__(name):
    """FloatTensor(indices, values, size) and so on, which older programs call."""
    kind = name.removesuffix("Tensor")
    if kind not in _OLDER or kind == name:
        raise AttributeError(f"module 'strata.sparse' has no attribute {name!r}")
    import functools

    from .. import _C

    return functools.partial(sparse_coo_tensor, dtype=getattr(_C, _OLDER[kind]))


__all__ = [
    "SparseTensor",
    "addmm",
    "hspmm",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "smm",
    "softmax",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "spdiags",
    "spmm",
    "sum",
]
