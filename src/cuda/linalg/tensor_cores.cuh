// The 16-bit element types of tensor-core kernels (bfloat16 or float16), known at compile time.
#pragma once
#include "cuda/common/dtypes.cuh"
#include "cuda/linalg/tile_order.cuh"

namespace strata::cuda {

// Two numbers of the 16-bit type as one word.
template <bool kBf16> __device__ __forceinline__ uint32_t pack(float low, float high) {
  if constexpr (kBf16) return pair_to_bf16(low, high);
  else return pair_to_half(low, high);
}
template <bool kBf16> __device__ __forceinline__ float unpack(uint16_t bits) {
  if constexpr (kBf16) return bf16_to_float(bits);
  else return half_to_float(bits);
}

}  // namespace strata::cuda
