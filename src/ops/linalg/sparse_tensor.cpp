#include "ops/linalg/sparse_tensor.h"

#include <algorithm>

#include "autograd/sparse_grad.h"
#include "strata/ops.h"

namespace strata {

SparseTensor::SparseTensor(const Tensor& indices, const Tensor& values, IntList size)
    : SparseTensor(_sparse_check(indices, values, size), values, Shape(size), false) {}
SparseTensor::SparseTensor(Tensor indices, Tensor values, Shape size, bool coalesced)
    : indices_(std::move(indices)),
      values_(std::move(values)),
      size_(size.begin(), size.end()),
      coalesced_(coalesced) {}
SparseTensor SparseTensor::with(Tensor values) const { return {indices_, std::move(values), size_, coalesced_}; }

int64_t SparseTensor::size(int64_t dim) const {
  return size_[static_cast<size_t>(normalize_dim(dim, static_cast<int>(size_.size()), "size"))];
}
SparseTensor SparseTensor::coalesce() const {
  if (coalesced_) return *this;
  auto [indices, values] = _sparse_coalesce(indices_, values_, size_);
  return {indices, values, size_, true};
}
Tensor SparseTensor::to_dense() const { return _sparse_to_dense(indices_, values_, size_); }
SparseTensor SparseTensor::detach() const { return with(autograd::detach(values_)); }
SparseTensor SparseTensor::to(DType dtype) const { return with(strata::to(values_, dtype)); }
SparseTensor SparseTensor::to(Device device) const {
  return {strata::to(indices_, device), strata::to(values_, device), size_, coalesced_};
}
SparseTensor SparseTensor::transpose(int64_t dim0, int64_t dim1) const {
  const int count = static_cast<int>(sparse_dim());
  const auto a = static_cast<size_t>(normalize_dim(dim0, count, "transpose"));
  const auto b = static_cast<size_t>(normalize_dim(dim1, count, "transpose"));
  std::vector<Tensor> rows = unbind(indices_);
  std::vector<int64_t> size = size_;
  std::swap(rows[a], rows[b]);
  std::swap(size[a], size[b]);
  return {stack(rows), values_, size, a == b && coalesced_};
}
SparseTensor SparseTensor::t() const { return dim() < 2 ? *this : transpose(0, 1); }
Tensor SparseTensor::sum() const { return strata::sum(values_); }
std::pair<Tensor, Tensor> SparseTensor::compressed() const {
  STRATA_CHECK(coalesced_ && dim() == 2 && sparse_dim() == 2, Runtime,
               "compressed: expected a coalesced sparse matrix, got shape {}{}", to_string(sizes()),
               coalesced_ ? "" : ", not coalesced");
  return {_compress_indices(select(indices_, 0, 0), size_[0]), select(indices_, 0, 1)};
}

SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, IntList size) {
  return {indices, values, size};
}
SparseTensor to_sparse(const Tensor& input) {
  STRATA_CHECK(input.dim() > 0, Runtime, "to_sparse: expected at least one dimension");
  const Tensor places = nonzero(ne(autograd::detach(input), 0));
  Tensor at = select(places, 1, 0);  // in a flat tensor
  for (int64_t d = 1; d < input.dim(); ++d) at = add(mul(at, input.size(d)), select(places, 1, d));
  return {contiguous(transpose(places, 0, 1)), take(input, at), input.shape(), true};
}
bool is_sparse(const Tensor& grad) { return autograd::sparse_parts(grad.checked()); }
SparseTensor as_sparse(const Tensor& grad) {
  const autograd::SparseParts* parts = autograd::sparse_parts(grad.checked());
  STRATA_CHECK(parts, Type, "as_sparse: expected a sparse gradient, got a dense tensor of shape {}; use to_sparse()",
               to_string(grad.shape()));
  return {parts->indices, parts->values, grad.shape(), parts->coalesced};
}
SparseTensor operator*(const SparseTensor& a, const Tensor& number) {
  STRATA_CHECK(number.dim() == 0, Runtime, "a sparse tensor is multiplied by a number, got a tensor of shape {}",
               to_string(number.shape()));
  return a.with(mul(a.values_, number));
}
SparseTensor operator+(const SparseTensor& a, const SparseTensor& b) {
  STRATA_CHECK(std::ranges::equal(a.sizes(), b.sizes()) && a.sparse_dim() == b.sparse_dim(), Runtime,
               "expected sparse tensors of equal shapes, got {} and {}", to_string(a.sizes()), to_string(b.sizes()));
  return SparseTensor(cat({a.indices_, b.indices_}, 1), cat({a.values_, b.values_}), a.sizes(), false).coalesce();
}

namespace {
void check_factors(const SparseTensor& a, Shape b) {
  STRATA_CHECK(a.dim() == 2 && b.size() == 2 && a.size(1) == b[0], Runtime, "mm: shapes {} and {} do not fit",
               to_string(a.sizes()), to_string(b));
}
}  // namespace

Tensor sparse_mm(const SparseTensor& a, const Tensor& b) {
  check_factors(a, b.shape());
  const SparseTensor ordered = a.coalesce();
  const auto [starts, columns] = ordered.compressed();
  return _compressed_product(starts, columns, ordered.values(), b);
}
SparseTensor sparse_mm(const SparseTensor& a, const SparseTensor& b) {
  check_factors(a, b.sizes());
  const SparseTensor ordered = b.coalesce();
  const auto [starts, columns] = ordered.compressed();
  const auto [indices, values] =
    _sparse_product(select(a.indices_, 0, 0), select(a.indices_, 0, 1), a.values_, starts, columns, ordered.values());
  const int64_t size[] = {a.size(0), b.size(1)};
  return SparseTensor(indices, values, size, false).coalesce();
}
SparseTensor sparse_softmax(const SparseTensor& input, int64_t dim, bool log) {
  const SparseTensor x = input.coalesce();
  const int at = normalize_dim(dim, static_cast<int>(x.sparse_dim()), "softmax");
  return x.with(_sparse_softmax(x.indices_, x.values_, x.size_, at, log));
}

}  // namespace strata
