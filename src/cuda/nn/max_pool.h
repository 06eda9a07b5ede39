// max_pool2d on a device, as in cpu/nn/max_pool.h. Tensors are [c, h, w] or [n, c, h, w] of any layout.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

struct MaxPoolWindow {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
};
enum class PoolMode : uint8_t {
  Forward,
  Backward,
  Gather
};  // big to small and codes; small to big; big to small by codes

void max_pool(PoolMode mode, const MaxPoolWindow& s, const TensorImpl& big, const TensorImpl& small,
              const TensorImpl* codes);

}  // namespace strata::cuda
