// The channels-last memory order.
#pragma once
#include "tensor/tensor.h"

namespace strata {

// [n, c, h, w] or [n, c, d, h, w] with the channels of a pixel adjacent, and the pixels in order. False if the memory
// is also that of a contiguous tensor (one channel, one pixel, no elements), so that each layout has one name.
inline bool is_channels_last(const TensorImpl& t) {
  if (t.ndim < 4 || t.contiguous || t.shape[1] == 1 || t.strides[1] != 1) return false;
  int64_t n = t.shape[1];
  for (int d = t.ndim; d-- > 2; n *= t.shape[d])
    if (t.shape[d] != 1 && t.strides[d] != n) return false;
  return t.shape[0] == 1 || t.strides[0] == n;
}

}  // namespace strata
