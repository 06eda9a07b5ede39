// Sparse matrices in compressed rows or columns, of elements or of blocks. Gradients flow through the values.
#pragma once
#include "ops/linalg/sparse_tensor.h"

namespace strata {

enum class SparseLayout { Csr, Csc, Bsr, Bsc };

// The parts of a matrix in compressed rows, or columns: `starts` has the place of the first element of each row and one
// after the last, `plain` the column of each element. values is [count], or [count, rows, columns] of blocks.
struct CompressedParts {
  Tensor starts, plain, values;
};
// Raises if these are not the parts of a matrix of this size.
STRATA_API void check_compressed(const CompressedParts& parts, IntList size, bool by_columns);
// The coordinates of all elements, those of blocks too, and their values; in the order of the values.
STRATA_API std::pair<Tensor, Tensor> compressed_to_coo(const CompressedParts& parts, bool by_columns);
// A matrix by coordinates, which may repeat, in compressed rows or columns; of blocks if blocksize is not empty.
STRATA_API CompressedParts coo_to_compressed(const Tensor& indices, const Tensor& values, IntList size,
                                             IntList blocksize, bool by_columns);

class STRATA_API CompressedTensor {
 public:
  // compressed_indices has the place of the first element of each row (Csr, Bsr) or column (Csc, Bsc) and one after the
  // last, plain_indices the column or row of each element. values is [count], or [count, rows, columns] of blocks. Checks
  // the indices.
  CompressedTensor(const Tensor& compressed_indices, const Tensor& plain_indices, const Tensor& values, IntList size,
                   SparseLayout layout);
  // The same matrix in another layout. blocksize is two numbers for Bsr and Bsc, and empty for the others.
  CompressedTensor(const SparseTensor& matrix, SparseLayout layout, IntList blocksize = {});

  SparseLayout layout() const { return layout_; }
  const Tensor& compressed_indices() const { return parts_.starts; }
  const Tensor& plain_indices() const { return parts_.plain; }
  const Tensor& values() const { return parts_.values; }
  Shape sizes() const { return size_; }
  int64_t nnz() const { return parts_.plain.size(0); }  // elements, or blocks
  DType dtype() const { return parts_.values.dtype(); }
  Device device() const { return parts_.values.device(); }

  SparseTensor to_coo() const;
  Tensor to_dense() const { return to_coo().to_dense(); }
  CompressedTensor to(Device device) const;
  CompressedTensor t() const;  // rows become columns: Csr becomes Csc, Bsr becomes Bsc

 private:
  CompressedTensor(CompressedParts parts, std::vector<int64_t> size, SparseLayout layout);
  CompressedParts parts_;
  std::vector<int64_t> size_;
  SparseLayout layout_;
};

// The elements of a dense matrix that are not zero, or the blocks that have one.
STRATA_API CompressedTensor to_sparse_csr(const Tensor& input);
STRATA_API CompressedTensor to_sparse_csc(const Tensor& input);
STRATA_API CompressedTensor to_sparse_bsr(const Tensor& input, IntList blocksize);
STRATA_API CompressedTensor to_sparse_bsc(const Tensor& input, IntList blocksize);
// The product with a dense matrix.
STRATA_API Tensor sparse_mm(const CompressedTensor& a, const Tensor& b);

}  // namespace strata
