// What tensor-core kernels of all architectures share: addresses in shared memory, and their 16-bit element types
// (bfloat16 or float16), known at compile time.
#pragma once
#include "cuda/common/dtypes.cuh"

namespace strata::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

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
