#include "ops/reduce/common.h"

#include "strata/ops.h"

namespace strata {

DimMask reduced_mask(const TensorImpl& x, const OptIntList& dim, const char* op) {
  const DimMask all = all_dims(x.ndim);
  if (!dim.given || dim.size == 0) return all;
  DimMask mask = 0;
  for (int64_t d : dim) {
    const DimMask bit = dim_bit(normalize_dim(d, x.ndim, op));
    STRATA_CHECK(!(mask & bit), Runtime, "{}: dim {} appears multiple times in the list of dims", op, d);
    mask |= bit;
  }
  return mask & all;
}

DimMask reduced_mask(const TensorImpl& x, const Value& dim, const char* op) {
  if (dim.tag == Tag::Ints) return reduced_mask(x, OptIntList(dim.int_list()), op);
  if (dim.tag == Tag::Int) return reduced_mask(x, OptIntList(dim.i), op);
  return reduced_mask(x, OptIntList(), op);
}

void set_reduced_shape(TensorImpl& out, const TensorImpl& x, DimMask reduced, bool keepdim) {
  out.device = x.device;
  out.reserve_dims(x.ndim);
  for (int d = 0; d < x.ndim; ++d)
    if (!(reduced >> d & 1)) out.shape[out.ndim++] = x.shape[d];
    else if (keepdim) out.shape[out.ndim++] = 1;
}

int64_t reduced_count(const TensorImpl& x, DimMask reduced) {
  int64_t n = 1;
  for (int d = 0; d < x.ndim; ++d)
    if (reduced >> d & 1) n *= x.shape[d];
  return n;
}

void require_elements(const TensorImpl& x, DimMask reduced, const char* op) {
  if (x.numel > 0) return;
  for (int d = 0; d < x.ndim; ++d)
    STRATA_CHECK(
      !(reduced >> d & 1) || x.shape[d] != 0, Index,
      "{}: expected reduction dim {} to have non-zero size; the input has shape {}, and the operation has no identity",
      op, d, to_string(x.sizes()));
}

Tensor with_kept_dims(const Tensor& t, Shape input, DimMask reduced, bool keepdim) {
  if (keepdim || t.dim() == static_cast<int>(input.size())) return t;
  int64_t shape[kMaxDims];
  for (size_t d = 0; d < input.size(); ++d) shape[d] = reduced >> d & 1 ? 1 : input[d];
  return reshape(t, Shape(shape, input.size()));
}

Tensor expand_reduced(const Tensor& t, Shape input, DimMask reduced, bool keepdim) {
  return expand(with_kept_dims(t, input, reduced, keepdim), input);
}

}  // namespace strata
