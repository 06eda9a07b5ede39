"""Sparse tensors: coordinates (COO) and matrices in compressed rows (CSR). Functions of torch.sparse by their names."""

from ._create import (
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csr_tensor,
)
from ._functions import addmm, hspmm, log_softmax, mm, sampled_addmm, smm, softmax, spmm, sum
from ._tensor import SparseTensor

__all__ = [
    "SparseTensor",
    "addmm",
    "hspmm",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "smm",
    "softmax",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csr_tensor",
    "spmm",
    "sum",
]
