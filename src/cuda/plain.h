// Tensors that the kernels for float alone take.
#pragma once
#include <cstdlib>

#include "tensor/tensor.h"

namespace strata::cuda {

// 32 bits do for its offsets, also for those of a padding around it.
inline bool is_plain(const TensorImpl& t) {
  int64_t reach = 0;
  for (int d = 0; d < t.ndim; ++d) reach += 2 * t.shape[d] * std::abs(t.strides[d]);
  return t.dtype == DType::F32 && reach < INT32_MAX;
}

}  // namespace strata::cuda
