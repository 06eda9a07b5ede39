// Norms over rows: y = (x - mean) / sqrt(variance + eps) * weight + bias, the root mean square norm, and their gradients of x.
// ptx: compute_75 compute_80
//
// Bound by memory: x is read once and y written once (the gradient reads two arrays). The threads of a row, from part
// of a warp up to a block, keep it in registers, 16 floats or 8 doubles each (32 floats if all tensors are 16-bit),
// with 16-byte loads that are all in flight together. The mean is computed first, then the squared deviations from it.
// Longer rows are read again for each step, from the cache.
#include "cuda/common/eights.cuh"
#include "cuda/common/row_threads.cuh"
#include "cuda/nn/norm_rows_params.h"

namespace strata::cuda {
namespace {

// A thread's part of its row.
template <class T, bool kNarrow = false> struct Row {
  static constexpr int kVectors = (kNarrow ? 2 : 1) * kNormInRegisters / int(8 * sizeof(T));
  int threads, lane, n;
  int64_t row, base;  // base: the row's first element
  bool there;

  __device__ explicit Row(const NormRowsParams& p) : threads(p.threads), n(int(p.n)) {
    const int shift = 31 - __clz(threads);
    lane = int(threadIdx.x) & (threads - 1);
    row = int64_t(blockIdx.x) * (blockDim.x >> shift) + (threadIdx.x >> shift);
    there = row < p.rows;
    base = row * p.n;
  }
  // Position in the row of this thread's vector k; whether it exists.
  __device__ __forceinline__ int place(int k) const { return (k * threads + lane) * 8; }
  __device__ __forceinline__ bool has(int k) const { return there && place(k) < n; }
  template <Types kTypes>
  __device__ __forceinline__ void read(uint64_t data, int32_t type, Eights<T, kVectors, kTypes>& v) const {
    v.load(
      type, [&](int k) { return element_as<T, kTypes>(data, type, base + place(k)); }, [&](int k) { return has(k); });
  }
  // Vector k of a parameter of all rows.
  template <Types kTypes>
  __device__ __forceinline__ void read_shared(uint64_t data, int32_t type, int k, Eights<T, 1, kTypes>& v) const {
    v.load(
      type, [&](int) { return element_as<T, kTypes>(data, type, place(k)); }, [&](int) { return has(k); });
  }
  template <Types kTypes>
  __device__ __forceinline__ void write(uint64_t data, int32_t type, int k, const T (&v)[8]) const {
    if (has(k)) store_eight<T, false>(const_cast<void*>(element_as<T, kTypes>(data, type, base + place(k))), type, v);
  }
  __device__ __forceinline__ T mean_of(const NormRowsParams& p) const {
    return there && p.mean ? reinterpret_cast<const T*>(p.mean)[row] : T(0);
  }
  __device__ __forceinline__ T rstd_of(const NormRowsParams& p) const {
    return there ? reinterpret_cast<const T*>(p.rstd)[row] : T(0);
  }
  // The sum over the row's threads, for all of them; each call has its own `step`.
  template <int step, class S> __device__ __forceinline__ S total(S v) const {
    __shared__ S space[32];
    return over_row<Add>(v, threads, space);
  }
};

template <class T> __device__ __forceinline__ void forward_long(const NormRowsParams& p) {
  const Row<T> row(p);
  const auto x = [&](int64_t i) { return load<T>(element(p.x, p.x_type, row.base + i), p.x_type); };
  double sum = 0, squares = 0;
  if (row.there && p.centred)
    for (int64_t i = row.lane; i < p.n; i += row.threads) sum += double(x(i));
  const double mean = p.centred ? row.template total<0>(sum) / double(p.n) : 0;
  if (row.there)
    for (int64_t i = row.lane; i < p.n; i += row.threads) squares += (double(x(i)) - mean) * (double(x(i)) - mean);
  const T rstd = T(1 / sqrt(row.template total<1>(squares) / double(p.n) + p.eps));
  if (!row.there) return;
  const T off = T(mean - double(T(mean)));  // the rounding error of the mean
  for (int64_t i = row.lane; i < p.n; i += row.threads) {
    T v = (x(i) - T(mean) - off) * rstd;
    if (p.weight) v *= load<T>(element(p.weight, p.weight_type, i), p.weight_type);
    if (p.bias) v += load<T>(element(p.bias, p.bias_type, i), p.bias_type);
    store<T>(const_cast<void*>(element(p.y, p.y_type, row.base + i)), p.y_type, v);
  }
  if (row.lane != 0) return;
  if (p.mean) reinterpret_cast<T*>(p.mean)[row.row] = T(mean);
  reinterpret_cast<T*>(p.rstd)[row.row] = rstd;
}

// kTypes: of x, weight and bias.
template <class T, Types kTypes> __device__ __forceinline__ void forward(const NormRowsParams& p) {
  using Own = Row<T, kTypes == Types::Narrow>;
  const Own row(p);
  constexpr int kVectors = Own::kVectors;
  Eights<T, kVectors, kTypes> x;
  row.read(p.x, p.x_type, x);
  T v[kVectors][8], sum = 0, squares = 0;
  x.get(p.x_type, v);
  if (p.centred) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k)
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += v[k][j];
  }
  const T center = p.centred ? row.template total<0>(sum) * T(p.each) : T(0);
  sum = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!row.has(k)) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[k][j] -= center;
      sum += v[k][j];
      squares += v[k][j] * v[k][j];
    }
  }
  // How far the rounded center is from the mean. 16-bit values are coarser than that and skip this sum.
  constexpr bool kExact = kTypes != Types::Narrow;
  const T off = kExact && p.centred ? row.template total<2>(sum) * T(p.each) : T(0), mean = center + off;
  const T variance = row.template total<1>(squares) * T(p.each) - off * off;
  const T rstd = rsqrt((variance < 0 ? T(0) : variance) + T(p.eps));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {  // one vector at a time: the parameters are cached, registers are scarce
    Eights<T, 1, kTypes> weight, bias;
    if (p.weight) row.read_shared(p.weight, p.weight_type, k, weight);
    if (p.bias) row.read_shared(p.bias, p.bias_type, k, bias);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[k][j] = (v[k][j] - off) * rstd;
    if (p.weight) weight.each(p.weight_type, [&](int, int j, T w) { v[k][j] *= w; });
    if (p.bias) bias.each(p.bias_type, [&](int, int j, T b) { v[k][j] += b; });
    row.template write<kTypes>(p.y, p.y_type, k, v[k]);
  }
  if (!row.there || row.lane != 0) return;
  if (p.mean) reinterpret_cast<T*>(p.mean)[row.row] = mean;
  reinterpret_cast<T*>(p.rstd)[row.row] = rstd;
}

template <class T> __device__ __forceinline__ void backward_long(const NormRowsParams& p) {
  const Row<T> row(p);
  const T mean = row.mean_of(p), rstd = row.rstd_of(p);
  const auto grad = [&](int64_t i) {
    const T g = load<T>(element(p.grad, p.grad_type, row.base + i), p.grad_type);
    return p.weight ? g * load<T>(element(p.weight, p.weight_type, i), p.weight_type) : g;
  };
  const auto normal = [&](int64_t i) {
    return (load<T>(element(p.x, p.x_type, row.base + i), p.x_type) - mean) * rstd;
  };
  double sum = 0, along = 0;
  if (row.there)
    for (int64_t i = row.lane; i < p.n; i += row.threads) {
      sum += double(grad(i));
      along += double(grad(i)) * double(normal(i));
    }
  const T shift = p.centred ? T(row.template total<0>(sum) / double(p.n)) : T(0);
  const T slope = T(row.template total<1>(along) / double(p.n));
  if (!row.there) return;
  for (int64_t i = row.lane; i < p.n; i += row.threads)
    store<T>(const_cast<void*>(element(p.y, p.y_type, row.base + i)), p.y_type,
             rstd * (grad(i) - shift - normal(i) * slope));
}

template <class T> __device__ __forceinline__ void backward(const NormRowsParams& p) {
  const Row<T> row(p);
  const T mean = row.mean_of(p), rstd = row.rstd_of(p);
  constexpr int kVectors = Row<T>::kVectors;
  Eights<T, kVectors, Types::Common> gradient, value;
  row.read(p.grad, p.grad_type, gradient);
  row.read(p.x, p.x_type, value);
  T g[kVectors][8], x[kVectors][8], sum = 0, along = 0;
  gradient.get(p.grad_type, g);
  value.get(p.x_type, x);
  if (p.weight) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      Eights<T, 1, Types::Common> weight;
      row.read_shared(p.weight, p.weight_type, k, weight);
      weight.each(p.weight_type, [&](int, int j, T w) { g[k][j] *= w; });
    }
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {  // the gradient of missing vectors is zero
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      x[k][j] = (x[k][j] - mean) * rstd;
      sum += g[k][j];
      along += g[k][j] * x[k][j];
    }
  }
  const T shift = p.centred ? row.template total<0>(sum) * T(p.each) : T(0);
  const T slope = row.template total<1>(along) * T(p.each);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
#pragma unroll
    for (int j = 0; j < 8; ++j) g[k][j] = rstd * (g[k][j] - shift - x[k][j] * slope);
    row.template write<Types::Common>(p.y, p.y_type, k, g[k]);
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(1024) norm_rows_f32(NormRowsParams p) { forward<float, Types::Common>(p); }
extern "C" __global__ void __launch_bounds__(512, 2) norm_rows_narrow(NormRowsParams p) {
  forward<float, Types::Narrow>(p);
}
extern "C" __global__ void __launch_bounds__(1024) norm_rows_f64(NormRowsParams p) { forward<double, Types::Same>(p); }

#define STRATA_NORM_ROWS(suffix, T)                                                                                    \
  extern "C" __global__ void __launch_bounds__(1024) norm_rows_long_##suffix(NormRowsParams p) { forward_long<T>(p); } \
  extern "C" __global__ void __launch_bounds__(512) norm_rows_backward_##suffix(NormRowsParams p) { backward<T>(p); }  \
  extern "C" __global__ void __launch_bounds__(512) norm_rows_backward_long_##suffix(NormRowsParams p) {               \
    backward_long<T>(p);                                                                                               \
  }
STRATA_NORM_ROWS(f32, float)
STRATA_NORM_ROWS(f64, double)

}  // namespace strata::cuda
