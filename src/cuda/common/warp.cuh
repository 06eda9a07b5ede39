// Warp-wide operations, also for GPUs that lack an instruction.
#pragma once

namespace strata::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;

// The lanes of a full warp with the same value as this one. Before compute capability 7.0: one vote per distinct value.
template <class T> __device__ __forceinline__ unsigned match_any(T value) {
#if __CUDA_ARCH__ >= 700
  return __match_any_sync(0xffffffffu, value);
#else
  unsigned same = 0;
  for (unsigned left = 0xffffffffu; left;) {
    const T first = __shfl_sync(0xffffffffu, value, __ffs(int(left)) - 1);
    const unsigned equal = __ballot_sync(0xffffffffu, value == first);
    if (value == first) same = equal;
    left &= ~equal;
  }
  return same;
#endif
}

}  // namespace strata::cuda
