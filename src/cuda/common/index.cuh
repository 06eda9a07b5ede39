// Index arithmetic: from the linear index of an element to its memory offset.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

// Replaces rest by rest / size and returns the remainder. For numbers below 2^31.
__device__ __forceinline__ uint32_t split_off(uint32_t& rest, const FastDivisor& size) {
  const uint32_t above = (__umulhi(rest, size.multiplier) + rest) >> size.shift, index = rest - above * size.divisor;
  rest = above;
  return index;
}

// The memory offset of element i of some axes. A single axis takes any i, several axes require i < 2^31.
__device__ __forceinline__ int64_t offset_of(const AxesParams& a, int64_t i) {
  if (a.dims == 1) return i * a.stride[0];
  uint32_t rest = uint32_t(i);
  int64_t at = 0;
#pragma unroll 1
  for (int d = 0; d < a.dims; ++d) at += int64_t(split_off(rest, a.size[d])) * a.stride[d];
  return at;
}

}  // namespace strata::cuda
