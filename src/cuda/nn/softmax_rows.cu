// softmax and log_softmax of contiguous rows, with their gradients: one read, one write.
// ptx: compute_75 compute_80
//
// Bound by memory. A row stays in the registers of its threads, 16 elements each in 16-byte accesses that are all in
// flight at once: few enough that a multiprocessor holds several rows, and one is read while another is computed. The
// maximum and the sum are reduced by shuffles and, for rows of several warps, shared memory.
#include "cuda/common/eights.cuh"
#include "cuda/common/row_threads.cuh"
#include "cuda/nn/softmax_params.h"

namespace strata::cuda {
namespace {

constexpr int kVectors = kSoftmaxInRegisters / 8;

struct Row {
  int64_t base;  // its first element
  int thread;
  bool exists;
};
__device__ __forceinline__ Row row_of(const SoftmaxParams& p) {
  const int shift = 31 - __clz(p.threads);
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x >> shift) + (threadIdx.x >> shift);
  return {row * p.n, int(threadIdx.x) & (p.threads - 1), row < p.rows};
}

// This thread's vectors: whether vector k exists, its position in the row, loading and storing them all.
__device__ __forceinline__ int place(const SoftmaxParams& p, const Row& row, int k) {
  return (k * p.threads + row.thread) * 8;
}
__device__ __forceinline__ bool has(const SoftmaxParams& p, const Row& row, int k) {
  return row.exists && place(p, row, k) < p.n;
}
template <bool kLowest, class T>
__device__ __forceinline__ void read(const SoftmaxParams& p, const Row& row, uint64_t data, int32_t type,
                                     Eights<T, kVectors, Types::Common>& v) {
  v.template load<kLowest>(
    type, [&](int k) { return element(data, type, row.base + place(p, row, k)); },
    [&](int k) { return has(p, row, k); });
}
template <class T>
__device__ __forceinline__ void write(const SoftmaxParams& p, const Row& row, const T (&v)[kVectors][8]) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
    if (has(p, row, k))
      store_eight<T, false>(const_cast<void*>(element(p.y, p.y_type, row.base + place(p, row, k))), p.y_type, v[k]);
}

template <class T, bool kLog> __device__ __forceinline__ void forward(const SoftmaxParams& p) {
  __shared__ T space[2][32];
  const Row row = row_of(p);
  Eights<T, kVectors, Types::Common> x;
  read<true>(p, row, p.x, p.x_type, x);
  T v[kVectors][8];
  x.get(p.x_type, v);
  T most = T(-INFINITY), sum = T(0);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) most = Most::both(most, v[k][j]);  // NaN propagates through the sum
  most = over_row<Most>(most, p.threads, space[0]);
  const auto exponentials = [&](auto exponential) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k)
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        v[k][j] -= most;
        const T e = exponential(v[k][j]);
        sum += e;
        if (!kLog) v[k][j] = e;
      }
  };
  if (sizeof(T) == 4 && (p.y_type == kBF16 || p.y_type == kF16))
    exponentials([](T x) { return T(exp_coarse(float(x))); });
  else exponentials([](T x) { return exp(x); });
  sum = over_row<Add>(sum, p.threads, space[1]);
  const T shift = kLog ? log(sum) : T(1) / sum;
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) v[k][j] = kLog ? v[k][j] - shift : v[k][j] * shift;
  write(p, row, v);
}

template <class T, bool kLog> __device__ __forceinline__ void backward(const SoftmaxParams& p) {
  __shared__ T space[32];
  const Row row = row_of(p);
  Eights<T, kVectors, Types::Common> result, gradient;
  read<false>(p, row, p.x, p.x_type, result);
  read<false>(p, row, p.grad, p.grad_type, gradient);
  T y[kVectors][8], g[kVectors][8], sum = T(0);
  result.get(p.x_type, y);
  gradient.get(p.grad_type, g);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += kLog ? g[k][j] : g[k][j] * y[k][j];
  sum = over_row<Add>(sum, p.threads, space);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) g[k][j] = kLog ? g[k][j] - exp(y[k][j]) * sum : (g[k][j] - sum) * y[k][j];
  write(p, row, g);
}
}  // namespace

#define STRATA_SOFTMAX(suffix, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(1024) softmax_##suffix(SoftmaxParams p) { forward<T, false>(p); }    \
  extern "C" __global__ void __launch_bounds__(1024) log_softmax_##suffix(SoftmaxParams p) { forward<T, true>(p); } \
  extern "C" __global__ void __launch_bounds__(1024) softmax_backward_##suffix(SoftmaxParams p) {                   \
    backward<T, false>(p);                                                                                          \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(1024) log_softmax_backward_##suffix(SoftmaxParams p) {               \
    backward<T, true>(p);                                                                                           \
  }
STRATA_SOFTMAX(rows_f32, float)
STRATA_SOFTMAX(rows_f64, double)

}  // namespace strata::cuda
