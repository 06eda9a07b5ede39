// Sparse tensors: only the listed elements are stored, by their coordinates. Gradients flow through the values.
#pragma once
#include <tuple>
#include <utility>
#include <vector>

#include "strata/ops.h"

namespace strata {

class SparseTensor {
 public:
  // values [count, sizes of the dense dimensions] at the coordinates in the columns of indices [sparse dimensions,
  // count], which may repeat: their values add up. Checks the indices.
  SparseTensor(const Tensor& indices, const Tensor& values, IntList size)
      : SparseTensor(_sparse_check(indices, values, size), values, Shape(size), false) {}

  const Tensor& indices() const { return indices_; }
  const Tensor& values() const { return values_; }
  Shape sizes() const { return size_; }
  int64_t size(int64_t dim) const { return size_[static_cast<size_t>(normalize_dim(dim, this->dim(), "size"))]; }
  int64_t dim() const { return static_cast<int64_t>(size_.size()); }
  int64_t sparse_dim() const { return indices_.size(0); }
  int64_t dense_dim() const { return dim() - sparse_dim(); }
  int64_t nnz() const { return values_.size(0); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  bool requires_grad() const { return values_.requires_grad(); }

  // Whether the coordinates are in order, each once; and the same tensor in that form.
  bool is_coalesced() const { return coalesced_; }
  SparseTensor coalesce() const {
    if (coalesced_) return *this;
    auto [indices, values] = _sparse_coalesce(indices_, values_, size_);
    return {indices, values, size_, true};
  }
  Tensor to_dense() const { return _sparse_to_dense(indices_, values_, size_); }
  SparseTensor detach() const { return with(autograd::detach(values_)); }
  SparseTensor to(DType dtype) const { return with(strata::to(values_, dtype)); }
  SparseTensor to(Device device) const {
    return {strata::to(indices_, device), strata::to(values_, device), size_, coalesced_};
  }
  // Exchanges two sparse dimensions.
  SparseTensor transpose(int64_t dim0, int64_t dim1) const {
    const int64_t a = normalize_dim(dim0, sparse_dim(), "transpose"),
                  b = normalize_dim(dim1, sparse_dim(), "transpose");
    std::vector<Tensor> rows = unbind(indices_);
    std::vector<int64_t> size = size_;
    std::swap(rows[static_cast<size_t>(a)], rows[static_cast<size_t>(b)]);
    std::swap(size[static_cast<size_t>(a)], size[static_cast<size_t>(b)]);
    return {stack(rows), values_, size, a == b && coalesced_};
  }
  SparseTensor t() const { return dim() < 2 ? *this : transpose(0, 1); }

  // A matrix in compressed rows: the place of the first element of each row and one after the last, and the columns.
  std::pair<Tensor, Tensor> compressed() const {
    STRATA_CHECK(coalesced_ && dim() == 2 && sparse_dim() == 2, Runtime,
                 "compressed: expected a coalesced sparse matrix, got shape {}{}", to_string(sizes()),
                 coalesced_ ? "" : ", not coalesced");
    return {_compress_indices(select(indices_, 0, 0), size_[0]), select(indices_, 0, 1)};
  }
  // The sum of all elements.
  Tensor sum() const { return strata::sum(values_); }

 private:
  SparseTensor(Tensor indices, Tensor values, Shape size, bool coalesced)
      : indices_(std::move(indices)),
        values_(std::move(values)),
        size_(size.begin(), size.end()),
        coalesced_(coalesced) {}
  SparseTensor with(Tensor values) const { return {indices_, std::move(values), size_, coalesced_}; }

  friend SparseTensor to_sparse(const Tensor& input);
  friend SparseTensor operator*(const SparseTensor& a, const Tensor& number);
  friend SparseTensor operator+(const SparseTensor& a, const SparseTensor& b);
  friend SparseTensor sparse_mm(const SparseTensor& a, const SparseTensor& b);
  friend SparseTensor sparse_softmax(const SparseTensor& input, int64_t dim, bool log);

  Tensor indices_, values_;
  std::vector<int64_t> size_;
  bool coalesced_;
};

inline SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, IntList size) {
  return {indices, values, size};
}
// The elements of a dense tensor that are not zero.
inline SparseTensor to_sparse(const Tensor& input) {
  STRATA_CHECK(input.dim() > 0, Runtime, "to_sparse: expected at least one dimension");
  const Tensor places = nonzero(ne(autograd::detach(input), 0));
  Tensor at = select(places, 1, 0);  // in a flat tensor
  for (int64_t d = 1; d < input.dim(); ++d) at = add(mul(at, input.size(d)), select(places, 1, d));
  return {contiguous(transpose(places, 0, 1)), take(input, at), input.shape(), true};
}
inline SparseTensor operator*(const SparseTensor& a, const Tensor& number) {
  STRATA_CHECK(number.dim() == 0, Runtime, "a sparse tensor is multiplied by a number, got a tensor of shape {}",
               to_string(number.shape()));
  return a.with(mul(a.values_, number));
}
inline SparseTensor operator+(const SparseTensor& a, const SparseTensor& b) {
  STRATA_CHECK(std::ranges::equal(a.sizes(), b.sizes()) && a.sparse_dim() == b.sparse_dim(), Runtime,
               "expected sparse tensors of equal shapes, got {} and {}", to_string(a.sizes()), to_string(b.sizes()));
  return SparseTensor(cat({a.indices_, b.indices_}, 1), cat({a.values_, b.values_}), a.sizes(), false).coalesce();
}
// The product of a sparse matrix and a dense one.
inline Tensor sparse_mm(const SparseTensor& a, const Tensor& b) {
  STRATA_CHECK(b.dim() == 2 && a.dim() == 2 && a.size(1) == b.size(0), Runtime, "mm: shapes {} and {} do not fit",
               to_string(a.sizes()), to_string(b.shape()));
  const SparseTensor ordered = a.coalesce();
  const auto [starts, columns] = ordered.compressed();
  return _compressed_product(starts, columns, ordered.values(), b);
}
// The product of two sparse matrices.
inline SparseTensor sparse_mm(const SparseTensor& a, const SparseTensor& b) {
  STRATA_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), Runtime, "mm: shapes {} and {} do not fit",
               to_string(a.sizes()), to_string(b.sizes()));
  const SparseTensor ordered = b.coalesce();
  const auto [starts, columns] = ordered.compressed();
  const auto [indices, values] =
    _sparse_product(select(a.indices_, 0, 0), select(a.indices_, 0, 1), a.values_, starts, columns, ordered.values());
  const int64_t size[] = {a.size(0), b.size(1)};
  return SparseTensor(indices, values, size, false).coalesce();
}
// The softmax along a sparse dimension over the stored elements of each line, or its logarithm.
inline SparseTensor sparse_softmax(const SparseTensor& input, int64_t dim, bool log = false) {
  const SparseTensor x = input.coalesce();
  return x.with(_sparse_softmax(x.indices_, x.values_, x.size_, normalize_dim(dim, x.sparse_dim(), "softmax"), log));
}

}  // namespace strata
