#include "cuda/common/axes.h"

#include "base/error.h"

namespace strata::cuda {

AxesParams axes_params(const Axes& a, const int64_t* stride, const char* op) {
  STRATA_CHECK(
    a.dims <= kAxesMost, NotImplemented,
    "{}: device kernels take at most {} dimensions that cannot be merged, got {}; make the input contiguous() "
    "first, or merge dimensions with flatten()",
    op, kAxesMost, a.dims);
  AxesParams p{};
  p.count = a.count;
  p.dims = a.dims;
  STRATA_CHECK(a.dims <= 1 || a.count <= INT32_MAX, NotImplemented,
               "{}: {} elements over {} strided dimensions are more than the device kernels count; make the input "
               "contiguous() first",
               op, a.count, a.dims);
  if (a.dims == 0) {
    p.dims = 1;
    p.stride[0] = 0;
  }
  for (int d = 0; d < a.dims; ++d) {
    const int from = a.dims - 1 - d;
    p.stride[d] = stride[from];
    if (a.dims > 1) p.size[d] = divisor(static_cast<uint32_t>(a.size[from]));
  }
  return p;
}

}  // namespace strata::cuda
