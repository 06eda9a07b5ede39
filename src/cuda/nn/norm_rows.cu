// Norms over rows: y = (x - mean) / sqrt(variance + eps) * weight + bias, the root mean square norm, and their gradients of x.
// ptx: compute_75 compute_80
// fmad: off
//
// Bound by memory: x is read once and y written once (the gradient reads two arrays). The threads of a row, from part
// of a warp up to a block, keep it in registers, 16 floats or 8 doubles each (32 floats if all tensors are 16-bit),
// with 16-byte loads that are all in flight together. The mean is computed first, then the squared deviations from it.
// Longer rows are read again for each step, from the cache.
#include "cuda/common/eights.cuh"
#include "cuda/nn/norm_rows.cuh"
#include "cuda/nn/norm_rows_params.h"

namespace strata::cuda {
namespace {

// A thread's part of its row, and its access to memory.
template <class T, bool kNarrow = false>
struct Row : RowPart<(kNarrow ? 2 : 1) * kNormInRegisters / int(8 * sizeof(T))> {
  using Part = RowPart<(kNarrow ? 2 : 1) * kNormInRegisters / int(8 * sizeof(T))>;
  using Part::base, Part::has, Part::kVectors, Part::place, Part::row, Part::there, Part::threads;

  __device__ explicit Row(const NormRowsParams& p) : Part(p.threads, p.rows, p.n) {}
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
  __shared__ T space[3][32];
  const Own row(p);
  constexpr int kVectors = Own::kVectors;
  Eights<T, kVectors, kTypes> x;
  row.read(p.x, p.x_type, x);
  T v[kVectors][8];
  x.get(p.x_type, v);
  const auto [mean, rstd, off] =
    norm_statistics<kTypes != Types::Narrow>(row, p.centred, T(p.each), T(p.eps), v, space);
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

template <class T, Types kTypes> __device__ __forceinline__ void backward(const NormRowsParams& p) {
  using Own = Row<T, kTypes == Types::Narrow>;
  __shared__ T space[2][32];
  const Own row(p);
  const T mean = row.mean_of(p), rstd = row.rstd_of(p);
  constexpr int kVectors = Own::kVectors;
  Eights<T, kVectors, kTypes> gradient, value;
  row.read(p.grad, p.grad_type, gradient);
  row.read(p.x, p.x_type, value);
  T g[kVectors][8], x[kVectors][8];
  gradient.get(p.grad_type, g);
  value.get(p.x_type, x);
  if (p.weight) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      Eights<T, 1, kTypes> weight;
      row.read_shared(p.weight, p.weight_type, k, weight);
      weight.each(p.weight_type, [&](int, int j, T w) { g[k][j] *= w; });
    }
  }
  norm_row_backward(row, p.centred, T(p.each), mean, rstd, g, x, space);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) row.template write<kTypes>(p.y, p.y_type, k, g[k]);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(1024) norm_rows_f32(NormRowsParams p) { forward<float, Types::Common>(p); }
extern "C" __global__ void __launch_bounds__(512, 2) norm_rows_narrow(NormRowsParams p) {
  forward<float, Types::Narrow>(p);
}
extern "C" __global__ void __launch_bounds__(1024) norm_rows_f64(NormRowsParams p) { forward<double, Types::Same>(p); }

extern "C" __global__ void __launch_bounds__(512) norm_rows_backward_f32(NormRowsParams p) {
  backward<float, Types::Common>(p);
}
extern "C" __global__ void __launch_bounds__(256, 2) norm_rows_backward_narrow(NormRowsParams p) {
  backward<float, Types::Narrow>(p);
}
extern "C" __global__ void __launch_bounds__(512) norm_rows_backward_f64(NormRowsParams p) {
  backward<double, Types::Same>(p);
}

#define STRATA_NORM_ROWS(suffix, T)                                                                                    \
  extern "C" __global__ void __launch_bounds__(1024) norm_rows_long_##suffix(NormRowsParams p) { forward_long<T>(p); } \
  extern "C" __global__ void __launch_bounds__(512) norm_rows_backward_long_##suffix(NormRowsParams p) {               \
    backward_long<T>(p);                                                                                               \
  }
STRATA_NORM_ROWS(f32, float)
STRATA_NORM_ROWS(f64, double)

}  // namespace strata::cuda
