#include "record/reduction.h"

#include <cstdlib>
#include <utility>

namespace strata {

// Stride 0 (an expanded dimension) goes outermost: as the innermost it would read everything once per step.
void Axes::arrange() {
  const auto key = [](int64_t s) { return s == 0 ? INT64_MAX : std::abs(s); };
  for (int i = 1; i < dims; ++i)
    for (int j = i; j > 0 && key(stride[j - 1]) < key(stride[j]); --j) {
      std::swap(size[j - 1], size[j]);
      std::swap(stride[j - 1], stride[j]);
      std::swap(out_stride[j - 1], out_stride[j]);
    }
  int n = 0;
  for (int d = 0; d < dims; ++d) {
    if (n > 0 && stride[n - 1] == stride[d] * size[d] && out_stride[n - 1] == out_stride[d] * size[d]) {
      size[n - 1] *= size[d];
      stride[n - 1] = stride[d];
      out_stride[n - 1] = out_stride[d];
    } else {
      size[n] = size[d];
      stride[n] = stride[d];
      out_stride[n++] = out_stride[d];
    }
  }
  dims = n;
}

ReducePlan::ReducePlan(const TensorImpl& x, DimMask reduced) {
  int64_t out_stride = 1;
  for (int d = x.ndim; d-- > 0;) {
    const bool gone_here = reduced >> d & 1;
    if (x.shape[d] == 1) continue;
    if (gone_here) gone.add(x.shape[d], x.strides[d]);
    else {
      kept.add(x.shape[d], x.strides[d], out_stride);
      out_stride *= x.shape[d];
    }
  }
  kept.arrange();
  gone.arrange();
  if (gone.dims == 0) gone.add(1, 1);
}

}  // namespace strata
