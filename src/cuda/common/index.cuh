// Index arithmetic: from the number of an element to its place in memory.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

// rest becomes rest / size; what is left over is returned. For numbers below 2^31.
__device__ __forceinline__ uint32_t split_off(uint32_t& rest, const FastDivisor& size) {
  const uint32_t above = (__umulhi(rest, size.multiplier) + rest) >> size.shift, index = rest - above * size.divisor;
  rest = above;
  return index;
}

// Where element i of some axes lies. One axis takes numbers of any size, several take them below 2^31.
__device__ __forceinline__ int64_t offset_of(const AxesParams& a, int64_t i) {
  if (a.dims == 1) return i * a.stride[0];
  uint32_t rest = uint32_t(i);
  int64_t at = 0;
#pragma unroll 1
  for (int d = 0; d < a.dims; ++d) at += int64_t(split_off(rest, a.size[d])) * a.stride[d];
  return at;
}

}  // namespace strata::cuda
