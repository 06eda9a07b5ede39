// Threads that share a row: folding a value over them.
#pragma once

namespace strata::cuda {

struct Add {
  template <class T> static __device__ __forceinline__ T both(T a, T b) { return a + b; }
};
struct Most {  // NaNs are passed over
  template <class T> static __device__ __forceinline__ T both(T a, T b) { return max(a, b); }
};

// The fold over the `threads` neighbours of a row, a power of two, for all of them. Rows of several warps meet in `space`, which
// has a place for each warp of the block and is used for one fold only: so one barrier will do.
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

}  // namespace strata::cuda
