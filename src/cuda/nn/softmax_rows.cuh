// softmax and log_softmax of a row in the registers of its threads, with their gradients: for the kernels of single ops and for
// groups of ops, with the same bits.
#pragma once
#include <math.h>

#include "cuda/common/exp_sum.cuh"

namespace strata::cuda {

// v becomes v - most or, without kLog, its exponential.
template <bool kLog, bool kCoarse, class T, int kVectors>
__device__ __forceinline__ void subtract_and_sum(T (&v)[kVectors][8], T most, T& sum) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[k][j] -= most;
      const T e = exponential<T>(v[k][j], kCoarse);
      sum += e;
      if (!kLog) v[k][j] = e;
    }
}

// coarse: the results are rounded to 16 bits. Vectors that do not exist are -infinity.
template <bool kLog, class T, int kVectors>
__device__ __forceinline__ void softmax_row(T (&v)[kVectors][8], int threads, bool coarse, T (&space)[2][32]) {
  T most = T(-INFINITY), sum = T(0);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) most = Most::both(most, v[k][j]);  // NaN propagates through the sum
  most = over_row<Most>(most, threads, space[0]);
  if (coarse) subtract_and_sum<kLog, true>(v, most, sum);
  else subtract_and_sum<kLog, false>(v, most, sum);
  sum = over_row<Add>(sum, threads, space[1]);
  const T shift = kLog ? log(sum) : T(1) / sum;
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) v[k][j] = kLog ? v[k][j] - shift : v[k][j] * shift;
}

// From the result y and its gradient g, which becomes that of the input. Vectors that do not exist are 0.
template <bool kLog, class T, int kVectors>
__device__ __forceinline__ void softmax_row_backward(const T (&y)[kVectors][8], T (&g)[kVectors][8], int threads,
                                                     T (&space)[32]) {
  T sum = T(0);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = kLog ? sum + g[k][j] : fma(g[k][j], y[k][j], sum);
  sum = over_row<Add>(sum, threads, space);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) g[k][j] = kLog ? fma(-exp(y[k][j]), sum, g[k][j]) : (g[k][j] - sum) * y[k][j];
}

// --- in groups -------------------------------------------------------------------------------------------------------------
template <bool kLog, bool kCoarse> struct SoftmaxRow {
  template <class Row, class T, class X, class Y>
  static __device__ __forceinline__ void run(const Row& row, const T*, const uint64_t*, const X& x, const Y& y) {
    __shared__ T space[2][32];
    wait_for_row(row.threads);
    T v[Row::kVectors][8];
    get_all(row, x, v, T(-INFINITY));
    softmax_row<kLog>(v, row.threads, kCoarse, space);
    give_all(row, y, v);
  }
};
template <bool kLog> struct SoftmaxRowGradient {
  template <class Row, class T, class G, class Y, class Out>
  static __device__ __forceinline__ void run(const Row& row, const T*, const uint64_t*, const G& gradient,
                                             const Y& result, const Out& out) {
    __shared__ T space[32];
    wait_for_row(row.threads);
    T y[Row::kVectors][8], g[Row::kVectors][8];
    get_all(row, result, y, T(0));
    get_all(row, gradient, g, T(0));
    softmax_row_backward<kLog>(y, g, row.threads, space);
    give_all(row, out, g);
  }
};

}  // namespace strata::cuda
