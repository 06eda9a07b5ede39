#include "cpu/lines.h"

#include "base/parallel.h"
#include "cpu/staging.h"

namespace strata::cpu {

Tensor with_adjacent_lines(const TensorImpl& x, int& dim) {
  constexpr int64_t kFew = 1 << 12;  // elements that stay in the L1 cache
  if (x.ndim == 0 || x.strides[dim] == 1 || x.shape[dim] == 1 || x.numel < kFew) return {};
  Tensor moved = alias(x);
  for (; dim + 1 < x.ndim; ++dim) {
    std::swap(moved->shape[dim], moved->shape[dim + 1]);
    std::swap(moved->strides[dim], moved->strides[dim + 1]);
  }
  moved->update_contiguous();
  return staged(*moved, x.dtype);
}

Tensor packed(const TensorImpl& x) {
  const DType compute = compute_type(x.dtype);
  if (x.contiguous && x.dtype == compute) return alias(x);
  Tensor out = make_tensor(x.sizes(), compute);
  if (x.numel == 0) return out;
  const int last = std::max(0, x.ndim - 1);
  const Lines from(x, last), to(*out, last);
  dispatch_compute(compute, [&]<class T>() {
    parallel_for(from.count(), from.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        load_block<T>(x.dtype, from.at(r), from.stride(), from.length(), to.data<T>(r));
    });
  });
  return out;
}

}  // namespace strata::cpu
