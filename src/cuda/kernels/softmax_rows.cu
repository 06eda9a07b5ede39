// softmax and log_softmax of rows that lie densely, with their gradients: one reading, one writing.
// ptx: compute_80
//
// Bound by memory. A row stays in the registers of its threads, up to 32 elements each in 16-byte accesses that are all in flight
// at once; the largest value and the sum go through shuffles and, for rows of several warps, shared memory. Rounding to bfloat16 by
// hand would take as long as the memory: older cards use softmax.cu.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/softmax_params.h"

namespace strata::cuda {
namespace {

constexpr int kVectors = 4, kMostThreads = 512;

struct Add {
  template <class T> static __device__ __forceinline__ T both(T a, T b) { return a + b; }
};
struct Most {  // NaNs are passed over: they come back with the sum
  template <class T> static __device__ __forceinline__ T both(T a, T b) { return max(a, b); }
};

// The same for all threads of a row, in the order of their numbers. `space` has a place for each warp of the block.
template <class Op, class T> __device__ __forceinline__ T over_row(T v, int threads, T* space) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) v = Op::both(v, __shfl_xor_sync(0xffffffffu, v, half));
  if (threads == 32) return v;
  const int warp = threadIdx.x / 32, warps = threads / 32, first = warp / warps * warps;
  __syncthreads();  // what was read of the space before
  if (threadIdx.x % 32 == 0) space[warp] = v;
  __syncthreads();
  v = space[first];
  for (int w = 1; w < warps; ++w) v = Op::both(v, space[first + w]);
  return v;
}

struct Row {
  int64_t base;  // its first element
  int thread;
  bool exists;
};
__device__ __forceinline__ Row row_of(const SoftmaxParams& p) {
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x / p.threads) + threadIdx.x / p.threads;
  return {row * p.n, int(threadIdx.x) % p.threads, row < p.rows};
}

// f(k, offset in the row) for each of this thread's vectors that exists.
template <class F> __device__ __forceinline__ void each_vector(const SoftmaxParams& p, const Row& row, F f) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t at = int64_t(k * p.threads + row.thread) * 8;
    if (row.exists && at < p.n) f(k, at);
  }
}

template <class T> __device__ __forceinline__ void forward(const SoftmaxParams& p) {
  __shared__ T space[kMostThreads / 32];
  const Row row = row_of(p);
  T v[kVectors][8];
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) v[k][j] = T(-INFINITY);
  each_vector(p, row, [&](int k, int64_t at) { load_eight<T>(element(p.x, p.x_type, row.base + at), p.x_type, v[k]); });
  T most = T(-INFINITY), sum = T(0);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) most = Most::both(most, v[k][j]);
  most = over_row<Most>(most, p.threads, space);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[k][j] -= most;
      const T e = v[k][j] == T(-INFINITY) ? T(0) : exp(v[k][j]);
      sum += e;
      if (!p.log) v[k][j] = e;
    }
  sum = over_row<Add>(sum, p.threads, space);
  const T shift = p.log ? log(sum) : T(1) / sum;
  each_vector(p, row, [&](int k, int64_t at) {
    T out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[j] = p.log ? v[k][j] - shift : v[k][j] * shift;
    store_eight<T>(const_cast<void*>(element(p.y, p.y_type, row.base + at)), p.y_type, out);
  });
}

template <class T> __device__ __forceinline__ void backward(const SoftmaxParams& p) {
  __shared__ T space[kMostThreads / 32];
  const Row row = row_of(p);
  T y[kVectors][8], g[kVectors][8], sum = T(0);
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) y[k][j] = g[k][j] = T(0);
  each_vector(p, row, [&](int k, int64_t at) {
    load_eight<T>(element(p.x, p.x_type, row.base + at), p.x_type, y[k]);
    load_eight<T>(element(p.grad, p.grad_type, row.base + at), p.grad_type, g[k]);
  });
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += p.log ? g[k][j] : g[k][j] * y[k][j];
  sum = over_row<Add>(sum, p.threads, space);
  each_vector(p, row, [&](int k, int64_t at) {
    T out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[j] = p.log ? g[k][j] - exp(y[k][j]) * sum : (g[k][j] - sum) * y[k][j];
    store_eight<T>(const_cast<void*>(element(p.y, p.y_type, row.base + at)), p.y_type, out);
  });
}
}  // namespace

extern "C" __global__ void __launch_bounds__(512) softmax_rows_f32(SoftmaxParams p) { forward<float>(p); }
extern "C" __global__ void __launch_bounds__(512) softmax_rows_f64(SoftmaxParams p) { forward<double>(p); }
extern "C" __global__ void __launch_bounds__(512) softmax_rows_backward_f32(SoftmaxParams p) { backward<float>(p); }
extern "C" __global__ void __launch_bounds__(512) softmax_rows_backward_f64(SoftmaxParams p) { backward<double>(p); }

}  // namespace strata::cuda
