// Cross entropy of a row of logits and its gradient: for the kernels of single ops and for groups of ops, with the same bits.
#pragma once
#include "cuda/common/exp_sum.cuh"
#include "cuda/common/fault.cuh"
#include "cuda/custom/elements.cuh"
#include "cuda/nn/cross_entropy_params.h"

namespace strata::cuda {

template <class T> __device__ __forceinline__ T class_loss(T logit, T most, T log_sum, T weight) {
  return -(logit - most - log_sum) * weight;
}
// The gradient of a logit: of the target, or of another class.
template <class T>
__device__ __forceinline__ T logit_gradient(T logit, T most, T log_sum, T scale, bool target, bool coarse) {
  const T e = exponential<T>(logit - most - log_sum, coarse);
  return (target ? e - T(1) : e) * scale;
}

// --- in groups -------------------------------------------------------------------------------------------------------------
// Words: the address of the targets (int64), the target that is ignored, a FaultSink. The losses are not weighted.
struct TargetWords {
  const int64_t* target;
  int64_t ignored;
  FaultSink faults;
  __device__ explicit TargetWords(const uint64_t* word)
      : target(reinterpret_cast<const int64_t*>(word[0])),
        ignored(int64_t(word[1])),
        faults{word[2], int32_t(word[3])} {}
  // The class of a row; -1: it does not count.
  template <class Row> __device__ __forceinline__ int64_t of(const Row& row) const {
    if (!row.there) return -1;
    const int64_t t = target[row.row];
    if (t == ignored) return -1;
    if (t >= 0 && t < row.n) return t;
    if (row.lane == 0) report(faults, FaultCode::Target, t, row.n);
    return -1;
  }
};

template <bool kCoarse> struct CrossEntropyRow {
  template <class Row, class T, class X>
  static __device__ __forceinline__ void run(const Row& row, const T*, const uint64_t* word, const X& x,
                                             T (&stats)[kCrossEntropyStats]) {
    constexpr int kMostRows = 1024;  // of a block
    __shared__ T space[2][32], hit[kMostRows];
    wait_for_row(row.threads);
    const int64_t t = TargetWords(word).of(row);
    ExpSum<T, false> all;
#pragma unroll
    for (int first = 0; first < Row::kVectors; first += kExpVectors) {
      T most = T(-INFINITY);
#pragma unroll
      for (int k = first; k < first + kExpVectors && k < Row::kVectors; ++k) {
        if (!row.has(k)) continue;
        T v[8];
        x(k, v);
#pragma unroll
        for (int j = 0; j < 8; ++j) most = max(most, v[j]);
      }
      if (row.has(first)) all.raise(most, kCoarse);
#pragma unroll
      for (int k = first; k < first + kExpVectors && k < Row::kVectors; ++k) {
        if (!row.has(k)) continue;
        T v[8];
        x(k, v);
#pragma unroll
        for (int j = 0; j < 8; ++j) all.add(v[j], kCoarse);
        if (row.place(k) != (t & -8)) continue;
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (j == (t & 7)) hit[threadIdx.x - row.lane] = v[j];
      }
    }
    all.finish(row.threads, kCoarse, space);
    if (row.threads <= 32) __syncwarp();
    else __syncthreads();
    const T log_sum = log(all.sum);
    stats[0] = all.most;
    stats[1] = log_sum;
    stats[2] = t < 0 ? T(0) : class_loss(hit[threadIdx.x - row.lane], all.most, log_sum, T(1));
  }
};

// More words: the address of the gradient of the loss, of type G, and that of the number of rows that count, or 0.
template <bool kCoarse, class G> struct CrossEntropyRowGradient {
  template <class Row, class T, class X, class Out>
  static __device__ __forceinline__ void run(const Row& row, const T*, const uint64_t* word, const X& x,
                                             const T (&stats)[kCrossEntropyStats], const Out& out) {
    const int64_t t = TargetWords(word).of(row);
    T scale = T(strata_load(*reinterpret_cast<const G*>(word[4])));
    if (word[5]) scale /= *reinterpret_cast<const T*>(word[5]);
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k) {
      if (!row.has(k)) continue;
      T v[8], g[8];
      x(k, v);
#pragma unroll
      for (int j = 0; j < 8; ++j)  // an ignored row has no gradient, whatever it contains
        g[j] = t >= 0 ? logit_gradient(v[j], stats[0], stats[1], scale, false, kCoarse) : T(0);
      if (t >= 0 && row.place(k) == (t & -8)) {
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (j == (t & 7)) g[j] = logit_gradient(v[j], stats[0], stats[1], scale, true, kCoarse);
      }
      out(k, g);
    }
  }
};

}  // namespace strata::cuda
