// Sparse tensors: only the listed elements are stored, by their coordinates. Gradients flow through the values.
#pragma once
#include <utility>
#include <vector>

#include "base/api.h"
#include "tensor/tensor.h"

namespace strata {

class SparseTensor;
STRATA_API SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, IntList size);
// The elements of a dense tensor that are not zero.
STRATA_API SparseTensor to_sparse(const Tensor& input);
STRATA_API SparseTensor operator*(const SparseTensor& a, const Tensor& number);
STRATA_API SparseTensor operator+(const SparseTensor& a, const SparseTensor& b);
// The sparse gradient that Tensor::grad() returns for the weight of embedding(sparse=true).
STRATA_API bool is_sparse(const Tensor& grad);
STRATA_API SparseTensor as_sparse(const Tensor& grad);
// The product with a dense or sparse matrix.
STRATA_API Tensor sparse_mm(const SparseTensor& a, const Tensor& b);
STRATA_API SparseTensor sparse_mm(const SparseTensor& a, const SparseTensor& b);
// The softmax along a sparse dimension over the stored elements of each line, or its logarithm.
STRATA_API SparseTensor sparse_softmax(const SparseTensor& input, int64_t dim, bool log = false);

class STRATA_API SparseTensor {
 public:
  // values [count, sizes of the dense dimensions] at the coordinates in the columns of indices [sparse dimensions,
  // count], which may repeat: their values add up. Checks the indices.
  SparseTensor(const Tensor& indices, const Tensor& values, IntList size);

  const Tensor& indices() const { return indices_; }
  const Tensor& values() const { return values_; }
  Shape sizes() const { return size_; }
  int64_t size(int64_t dim) const;
  int64_t dim() const { return static_cast<int64_t>(size_.size()); }
  int64_t sparse_dim() const { return indices_.size(0); }
  int64_t dense_dim() const { return dim() - sparse_dim(); }
  int64_t nnz() const { return values_.size(0); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  bool requires_grad() const { return values_.requires_grad(); }

  // Whether the coordinates are in order, each once; and the same tensor in that form.
  bool is_coalesced() const { return coalesced_; }
  SparseTensor coalesce() const;
  Tensor to_dense() const;
  SparseTensor detach() const;
  SparseTensor to(DType dtype) const;
  SparseTensor to(Device device) const;
  SparseTensor transpose(int64_t dim0, int64_t dim1) const;  // of sparse dimensions
  SparseTensor t() const;
  Tensor sum() const;  // of all elements
  // A coalesced matrix in compressed rows: the place of the first element of each row and one after the last, and the
  // columns.
  std::pair<Tensor, Tensor> compressed() const;

 private:
  SparseTensor(Tensor indices, Tensor values, Shape size, bool coalesced);
  SparseTensor with(Tensor values) const;

  friend SparseTensor to_sparse(const Tensor& input);
  friend SparseTensor as_sparse(const Tensor& grad);
  friend SparseTensor operator*(const SparseTensor& a, const Tensor& number);
  friend SparseTensor operator+(const SparseTensor& a, const SparseTensor& b);
  friend SparseTensor sparse_mm(const SparseTensor& a, const SparseTensor& b);
  friend SparseTensor sparse_softmax(const SparseTensor& input, int64_t dim, bool log);

  Tensor indices_, values_;
  std::vector<int64_t> size_;
  bool coalesced_;
};

}  // namespace strata
