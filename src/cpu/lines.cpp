#include "cpu/lines.h"

#include "base/parallel.h"

namespace strata::cpu {

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
