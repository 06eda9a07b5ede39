// Layer and root mean square norms of a row in the registers of its threads, and the gradient of their input: for the kernels of
// single ops and for groups of ops, with the same bits.
#pragma once
#include <math.h>

#include "cuda/common/row_threads.cuh"

namespace strata::cuda {

template <class T> struct NormStatistics {
  T mean, rstd;
  T off;  // how far the mean is from the value that was subtracted
};
// Subtracts about the mean of the row from v. kExact: also finds how far the rounded mean is off; 16-bit values are coarser than
// that.
template <bool kExact, class Row, class T, int kVectors>
__device__ __forceinline__ NormStatistics<T> norm_statistics(const Row& row, bool centred, T each, T eps,
                                                             T (&v)[kVectors][8], T (&space)[3][32]) {
  T sum = 0, squares = 0;
  if (centred) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k)
      if (row.has(k)) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum += v[k][j];
      }
  }
  const T center = centred ? over_row<Add>(sum, row.threads, space[0]) * each : T(0);
  sum = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!row.has(k)) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[k][j] -= center;
      sum += v[k][j];
      squares = fma(v[k][j], v[k][j], squares);
    }
  }
  const T off = kExact && centred ? over_row<Add>(sum, row.threads, space[2]) * each : T(0);
  const T variance = fma(-off, off, over_row<Add>(squares, row.threads, space[1]) * each);
  return {center + off, rsqrt((variance < 0 ? T(0) : variance) + eps), off};
}

// From the gradient g of the normalized values, which becomes that of the input, and the input x, which is overwritten. Vectors
// that do not exist have a gradient of 0.
template <class Row, class T, int kVectors>
__device__ __forceinline__ void norm_row_backward(const Row& row, bool centred, T each, T mean, T rstd,
                                                  T (&g)[kVectors][8], T (&x)[kVectors][8], T (&space)[2][32]) {
  T sum = 0, along = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      x[k][j] = (x[k][j] - mean) * rstd;
      sum += g[k][j];
      along = fma(g[k][j], x[k][j], along);
    }
  }
  const T shift = centred ? over_row<Add>(sum, row.threads, space[0]) * each : T(0);
  const T slope = over_row<Add>(along, row.threads, space[1]) * each;
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) g[k][j] = rstd * fma(-x[k][j], slope, g[k][j] - shift);
}

// --- in groups -------------------------------------------------------------------------------------------------------------
// Numbers: 1 / n and, forward, eps. Parameters of all rows are read one vector at a time, by functions of its index: they are cached,
// and registers are scarce.
struct Scaled {
  template <class T> static __device__ __forceinline__ T of(T v, T weight) { return v * weight; }
};
struct Shifted {
  template <class T> static __device__ __forceinline__ T of(T v, T bias) { return v + bias; }
};
template <class Op, class T, class Parameter>
__device__ __forceinline__ void with_parameter(T (&v)[8], int k, const Parameter& parameter) {
  T w[8];
  parameter(k, w);
#pragma unroll
  for (int j = 0; j < 8; ++j) v[j] = Op::of(v[j], w[j]);
}

template <bool kCentred, bool kExact, class... Ops> struct NormRow {
  template <class Row, class T, class X, class Y, class... Parameters>
  static __device__ __forceinline__ void run(const Row& row, const T* number, const uint64_t*, const X& x, const Y& y,
                                             T& mean, T& rstd, const Parameters&... parameters) {
    __shared__ T space[3][32];
    wait_for_row(row.threads);
    T v[Row::kVectors][8];
    get_all(row, x, v, T(0));
    const NormStatistics<T> s = norm_statistics<kExact>(row, kCentred, number[0], number[1], v, space);
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k) {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[k][j] = (v[k][j] - s.off) * s.rstd;
      (with_parameter<Ops>(v[k], k, parameters), ...);
      y(k, v[k]);
    }
    mean = s.mean;
    rstd = s.rstd;
  }
};
// Without a mean.
template <bool kExact, class... Ops> struct RootMeanSquareRow {
  template <class Row, class T, class X, class Y, class... Parameters>
  static __device__ __forceinline__ void run(const Row& row, const T* number, const uint64_t* word, const X& x,
                                             const Y& y, T& rstd, const Parameters&... parameters) {
    T mean;
    NormRow<false, kExact, Ops...>::run(row, number, word, x, y, mean, rstd, parameters...);
  }
};
// Ops: nothing, or Scaled if there is a weight.
template <class... Ops> struct NormRowGradient {
  template <class Row, class T, class G, class X, class Out, class... Parameters>
  static __device__ __forceinline__ void run(const Row& row, const T* number, const uint64_t*, const G& g, const X& x,
                                             T mean, T rstd, const Out& out, const Parameters&... parameters) {
    run_with<true>(row, number, g, x, mean, rstd, out, parameters...);
  }
  template <bool kCentred, class Row, class T, class G, class X, class Out, class... Parameters>
  static __device__ __forceinline__ void run_with(const Row& row, const T* number, const G& gradient, const X& input,
                                                  T mean, T rstd, const Out& out, const Parameters&... parameters) {
    __shared__ T space[2][32];
    wait_for_row(row.threads);
    T g[Row::kVectors][8], x[Row::kVectors][8];
    get_all(row, gradient, g, T(0));
    get_all(row, input, x, T(0));
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k)
      if (row.has(k)) (with_parameter<Ops>(g[k], k, parameters), ...);
    norm_row_backward(row, kCentred, number[0], mean, rstd, g, x, space);
    give_all(row, out, g);
  }
};
template <class... Ops> struct RootMeanSquareRowGradient {
  template <class Row, class T, class G, class X, class Out, class... Parameters>
  static __device__ __forceinline__ void run(const Row& row, const T* number, const uint64_t*, const G& g, const X& x,
                                             T rstd, const Out& out, const Parameters&... parameters) {
    NormRowGradient<Ops...>::template run_with<false>(row, number, g, x, T(0), rstd, out, parameters...);
  }
};

}  // namespace strata::cuda
