#include "autograd/sparse_grad.h"

#include "autograd/hooks.h"

namespace strata::autograd {
namespace {

SparseParts joined(const SparseParts& a, const SparseParts& b) {
  static const OpRecord& cat = find_op("cat");
  STRATA_CHECK(a.indices.size(0) == b.indices.size(0), Runtime,
               "sparse gradients of {} and {} sparse dimensions cannot be added; convert one with to_dense()",
               a.indices.size(0), b.indices.size(0));
  const auto join = [](const Tensor& x, const Tensor& y, int64_t dim) {
    const Tensor both[] = {x, y};
    return call(cat, Args(TensorList(both), dim));
  };
  return {join(a.indices, b.indices, 1), join(a.values, b.values, 0)};
}
// index_put_ with accumulation: coordinates may repeat.
void add_to_dense(const Tensor& dense, const SparseParts& parts) {
  static const OpRecord &select = find_op("select"), &put = find_op("index_put_");
  std::vector<Tensor> at;
  for (int64_t d = 0; d < parts.indices.size(0); ++d) at.push_back(call(select, Args(parts.indices, 0, d)));
  call(put, Args(dense, TensorList(at), parts.values, true));
}

}  // namespace

Tensor make_sparse(SparseParts parts, Shape size) {
  Tensor made = make_tensor(size, parts.values.dtype(), Device(DeviceType::Meta));
  made->extra.make<GradExtra>().sparse = std::make_unique<SparseParts>(std::move(parts));
  return made;
}
SparseParts* sparse_parts(const TensorImpl& t) {
  const GradExtra* extra = extra_of(t);
  return extra ? extra->sparse.get() : nullptr;
}
Tensor sparse_to_dense(const Tensor& sparse) {
  static const OpRecord& to_dense = find_op("_sparse_to_dense");
  const SparseParts& parts = *sparse_parts(sparse.checked());
  return call(to_dense, Args(parts.indices, parts.values, IntList(sparse.shape())));
}
Tensor copy_sparse(const Tensor& sparse) {
  static const OpRecord& clone = find_op("clone");
  const SparseParts& parts = *sparse_parts(sparse.checked());
  return make_sparse(
    {call(clone, Args(parts.indices, Value())), call(clone, Args(parts.values, Value())), parts.coalesced},
    sparse.shape());
}
Tensor add_sparse(const Tensor& a, const Tensor& b) {
  static const OpRecord& add = find_op("add");
  const SparseParts *first = sparse_parts(*a), *second = sparse_parts(*b);
  if (first && second) return make_sparse(joined(*first, *second), a.shape());
  return call(add, Args(first ? sparse_to_dense(a) : a, second ? sparse_to_dense(b) : b, 1));
}
bool add_sparse_in_place(const Tensor& sum, const Tensor& g) {
  SparseParts* own = sparse_parts(*sum);
  const SparseParts* parts = sparse_parts(*g);
  if (!parts) return false;
  if (own) *own = joined(*own, *parts);
  else add_to_dense(sum, *parts);
  return true;
}

}  // namespace strata::autograd
