// For kernels whose threads share a row: reductions, and an exponential for sums of small terms.
#pragma once

namespace strata::cuda {

struct Add {
  template <class T> static __device__ __forceinline__ T both(T a, T b) { return a + b; }
};
struct Most {  // ignores NaN
  template <class T> static __device__ __forceinline__ T both(T a, T b) { return max(a, b); }
};

// Reduces over the `threads` neighbours of a row, a power of two; all of them get the result. Rows of several warps use
// `space`, which has an entry for each warp of the block and is used for one reduction only, so one barrier is enough.
template <class Op, class T> __device__ __forceinline__ T over_row(T v, int threads, T (&space)[32]) {
  if (threads < 32) {
    for (int half = threads / 2; half > 0; half /= 2) v = Op::both(v, __shfl_xor_sync(0xffffffffu, v, half));
    return v;
  }
#pragma unroll
  for (int half = 16; half > 0; half /= 2) v = Op::both(v, __shfl_xor_sync(0xffffffffu, v, half));
  if (threads == 32) return v;
  const int warp = threadIdx.x / 32, warps = threads / 32, lane = threadIdx.x % 32;
  if (lane == 0) space[warp] = v;
  __syncthreads();
  v = space[(warp & -warps) + (lane & (warps - 1))];
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, v, half);
    if (half < warps) v = Op::both(v, other);
  }
  return v;
}

// e^v for 16-bit data: arguments are at most 0, and 2^-20 is lost in rounding.
__device__ __forceinline__ float exp_coarse(float v) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v * 1.4426950408889634f));
  return y;
}

}  // namespace strata::cuda
