// For kernels whose threads share a row: their elements, reductions, and an exponential for sums of small terms.
// Kernels that are compiled at run time include it too (cuda/pointwise/fused_rows.cuh).
#pragma once
#include <stdint.h>

namespace strata::cuda {

// A thread's part of its row: vectors of eight elements. Neighbouring threads of a row, a power of two, hold neighbouring vectors.
template <int kVectors_> struct RowPart {
  static constexpr int kVectors = kVectors_;
  int threads, lane, n;
  int64_t row, base;  // base: the row's first element
  bool there;

  __device__ __forceinline__ RowPart(int of_row, int64_t rows, int64_t n) : threads(of_row), n(int(n)) {
    const int shift = 31 - __clz(threads);
    lane = int(threadIdx.x) & (threads - 1);
    row = int64_t(blockIdx.x) * (blockDim.x >> shift) + (threadIdx.x >> shift);
    there = row < rows;
    base = row * n;
  }
  // Position in the row of vector k; whether it exists.
  __device__ __forceinline__ int place(int k) const { return (k * threads + lane) * 8; }
  __device__ __forceinline__ bool has(int k) const { return there && place(k) < n; }
};

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

// Before shared memory is used again, by another reduction of the same kind.
__device__ __forceinline__ void wait_for_row(int threads) {
  if (threads > 32) __syncthreads();
}

// e^v for 16-bit data: arguments are at most 0, and 2^-20 is lost in rounding.
__device__ __forceinline__ float exp_coarse(float v) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v * 1.4426950408889634f));
  return y;
}

// --- in groups -------------------------------------------------------------------------------------------------------------
// A functor of a group (GpuRows in record/rows.h) gets its elements, and gives its results, by functions of (vector, T(&)[8]).
template <class Row, class T, class X>
__device__ __forceinline__ void get_all(const Row& row, const X& x, T (&v)[Row::kVectors][8], T missing) {
#pragma unroll
  for (int k = 0; k < Row::kVectors; ++k) {
    if (row.has(k)) {
      x(k, v[k]);
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[k][j] = missing;
    }
  }
}
template <class Row, class T, class Y>
__device__ __forceinline__ void give_all(const Row& row, const Y& y, const T (&v)[Row::kVectors][8]) {
#pragma unroll
  for (int k = 0; k < Row::kVectors; ++k) y(k, v[k]);
}

// A copy, converted to the element type of the result.
struct CopyRow {
  template <class Row, class T, class X, class Y>
  static __device__ __forceinline__ void run(const Row&, const T*, const uint64_t*, const X& x, const Y& y) {
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k) {
      T v[8];
      x(k, v);
      y(k, v);
    }
  }
};

}  // namespace strata::cuda
