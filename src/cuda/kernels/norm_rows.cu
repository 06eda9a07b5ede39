// Norms over rows: y = (x - mean) / sqrt(variance + eps) * weight + bias, the root mean square norm, and their gradients of x.
//
// Bound by memory: x is read once and y written once (the gradient reads two arrays). The threads of a row, a part of a warp up to
// a block, keep it in registers, up to 128 bytes each, in 16-byte loads that are all in flight together; the mean comes first,
// then the squared deviations from it. Longer rows are read again for each step, from the cache.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/norm_rows_params.h"

namespace strata::cuda {
namespace {

// A thread's part of its row.
template <class T> struct Row {
  static constexpr int kVector = kWide<T>, kVectors = 128 / (kVector * sizeof(T));
  int threads, lane;
  int64_t n, row, base;  // base: the row's first element
  bool there;

  __device__ explicit Row(const NormRowsParams& p) : threads(p.threads), n(p.n) {
    lane = int(threadIdx.x) % threads;
    row = int64_t(blockIdx.x) * (blockDim.x / threads) + threadIdx.x / threads;
    there = row < p.rows, base = row * n;
  }
  // Where in the row vector k of this thread stands; whether there is one.
  __device__ __forceinline__ int place(int k) const { return (k * threads + lane) * kVector; }
  __device__ __forceinline__ bool has(int k) const { return there && place(k) < n; }
  __device__ __forceinline__ void read(uint64_t data, int32_t type, T (&v)[kVectors][kVector]) const {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) v[k][j] = T(0);
      if (has(k)) load_wide(element(data, type, base + place(k)), type, v[k]);
    }
  }
  // The sum over the row's threads, for all of them.
  template <class S> __device__ __forceinline__ S total(S v) const {
    __shared__ S of_warp[32];
    for (int half = min(threads, 32) / 2; half > 0; half /= 2) v += __shfl_xor_sync(0xffffffffu, v, half);
    if (threads <= 32) return v;
    const int warps = threads / 32, warp = threadIdx.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[warp] = v;
    __syncthreads();
    v = 0;
    for (int k = 0; k < warps; ++k) v += of_warp[warp / warps * warps + k];
    return v;
  }
};

template <class T> __device__ void forward_long(const NormRowsParams& p, const Row<T>& row) {
  const auto x = [&](int64_t i) { return load<T>(element(p.x, p.x_type, row.base + i), p.x_type); };
  double sum = 0, squares = 0;
  if (row.there && p.centred)
    for (int64_t i = row.lane; i < p.n; i += row.threads) sum += double(x(i));
  const double mean = p.centred ? row.total(sum) / double(p.n) : 0;
  if (row.there)
    for (int64_t i = row.lane; i < p.n; i += row.threads) squares += (double(x(i)) - mean) * (double(x(i)) - mean);
  const T rstd = T(1 / sqrt(row.total(squares) / double(p.n) + p.eps));
  if (!row.there) return;
  for (int64_t i = row.lane; i < p.n; i += row.threads) {
    T v = (x(i) - T(mean)) * rstd;
    if (p.weight) v *= load<T>(element(p.weight, p.weight_type, i), p.weight_type);
    if (p.bias) v += load<T>(element(p.bias, p.bias_type, i), p.bias_type);
    store<T>(const_cast<void*>(element(p.y, p.y_type, row.base + i)), p.y_type, v);
  }
  if (row.lane != 0) return;
  if (p.mean) reinterpret_cast<T*>(p.mean)[row.row] = T(mean);
  reinterpret_cast<T*>(p.rstd)[row.row] = rstd;
}

template <class T> __device__ __forceinline__ void forward(const NormRowsParams& p) {
  const Row<T> row(p);
  if (!p.vectors) return forward_long(p, row);
  constexpr int kVectors = Row<T>::kVectors, kVector = Row<T>::kVector;
  T v[kVectors][kVector], sum = 0, squares = 0;
  row.read(p.x, p.x_type, v);
  if (p.centred) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k)
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum += v[k][j];
  }
  const T mean = p.centred ? row.total(sum) / T(p.n) : T(0);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!row.has(k)) continue;
#pragma unroll
    for (int j = 0; j < kVector; ++j) v[k][j] -= mean, squares += v[k][j] * v[k][j];
  }
  const T rstd = T(1) / sqrt(row.total(squares) / T(p.n) + T(p.eps));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!row.has(k)) continue;
    T w[kVector], b[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) w[j] = T(1), b[j] = T(0);
    if (p.weight) load_wide(element(p.weight, p.weight_type, row.place(k)), p.weight_type, w);
    if (p.bias) load_wide(element(p.bias, p.bias_type, row.place(k)), p.bias_type, b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) v[k][j] = v[k][j] * rstd * w[j] + b[j];
    store_wide(const_cast<void*>(element(p.y, p.y_type, row.base + row.place(k))), p.y_type, v[k]);
  }
  if (!row.there || row.lane != 0) return;
  if (p.mean) reinterpret_cast<T*>(p.mean)[row.row] = mean;
  reinterpret_cast<T*>(p.rstd)[row.row] = rstd;
}

template <class T> __device__ void backward_long(const NormRowsParams& p, const Row<T>& row, T mean, T rstd) {
  const auto grad = [&](int64_t i) {
    const T g = load<T>(element(p.grad, p.grad_type, row.base + i), p.grad_type);
    return p.weight ? g * load<T>(element(p.weight, p.weight_type, i), p.weight_type) : g;
  };
  const auto normal = [&](int64_t i) {
    return (load<T>(element(p.x, p.x_type, row.base + i), p.x_type) - mean) * rstd;
  };
  double sum = 0, along = 0;
  if (row.there)
    for (int64_t i = row.lane; i < p.n; i += row.threads)
      sum += double(grad(i)), along += double(grad(i)) * double(normal(i));
  const T shift = p.centred ? T(row.total(sum) / double(p.n)) : T(0), slope = T(row.total(along) / double(p.n));
  if (!row.there) return;
  for (int64_t i = row.lane; i < p.n; i += row.threads)
    store<T>(const_cast<void*>(element(p.y, p.y_type, row.base + i)), p.y_type,
             rstd * (grad(i) - shift - normal(i) * slope));
}

template <class T> __device__ __forceinline__ void backward(const NormRowsParams& p) {
  const Row<T> row(p);
  const T mean = row.there && p.mean ? reinterpret_cast<const T*>(p.mean)[row.row] : T(0);
  const T rstd = row.there ? reinterpret_cast<const T*>(p.rstd)[row.row] : T(0);
  if (!p.vectors) return backward_long(p, row, mean, rstd);
  constexpr int kVectors = Row<T>::kVectors, kVector = Row<T>::kVector;
  T g[kVectors][kVector], x[kVectors][kVector], sum = 0, along = 0;
  row.read(p.grad, p.grad_type, g);
  row.read(p.x, p.x_type, x);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!row.has(k)) continue;
    T w[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) w[j] = T(1);
    if (p.weight) load_wide(element(p.weight, p.weight_type, row.place(k)), p.weight_type, w);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      g[k][j] *= w[j], x[k][j] = (x[k][j] - mean) * rstd;
      sum += g[k][j], along += g[k][j] * x[k][j];
    }
  }
  const T shift = p.centred ? row.total(sum) / T(p.n) : T(0), slope = row.total(along) / T(p.n);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!row.has(k)) continue;
#pragma unroll
    for (int j = 0; j < kVector; ++j) g[k][j] = rstd * (g[k][j] - shift - x[k][j] * slope);
    store_wide(const_cast<void*>(element(p.y, p.y_type, row.base + row.place(k))), p.y_type, g[k]);
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(512) norm_rows_f32(NormRowsParams p) { forward<float>(p); }
extern "C" __global__ void __launch_bounds__(512) norm_rows_f64(NormRowsParams p) { forward<double>(p); }
extern "C" __global__ void __launch_bounds__(256) norm_rows_backward_f32(NormRowsParams p) { backward<float>(p); }
extern "C" __global__ void __launch_bounds__(256) norm_rows_backward_f64(NormRowsParams p) { backward<double>(p); }

}  // namespace strata::cuda
