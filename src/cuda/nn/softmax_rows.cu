// softmax and log_softmax of contiguous rows, with their gradients: one read, one write.
// ptx: compute_75 compute_80
// fmad: off
//
// Bound by memory. A row stays in the registers of its threads, 16 elements each in 16-byte accesses that are all in
// flight at once: few enough that a multiprocessor holds several rows, and one is read while another is computed. The
// maximum and the sum are reduced by shuffles and, for rows of several warps, shared memory.
#include "cuda/common/eights.cuh"
#include "cuda/nn/softmax_params.h"
#include "cuda/nn/softmax_rows.cuh"

namespace strata::cuda {
namespace {

constexpr int kVectors = kSoftmaxInRegisters / 8;

using Row = RowPart<kVectors>;
__device__ __forceinline__ Row row_of(const SoftmaxParams& p) { return {p.threads, p.rows, p.n}; }

template <bool kLowest, class T>
__device__ __forceinline__ void read(const Row& row, uint64_t data, int32_t type,
                                     Eights<T, kVectors, Types::Common>& v) {
  v.template load<kLowest>(
    type, [&](int k) { return element(data, type, row.base + row.place(k)); }, [&](int k) { return row.has(k); });
}
template <class T>
__device__ __forceinline__ void write(const SoftmaxParams& p, const Row& row, const T (&v)[kVectors][8]) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
    if (row.has(k))
      store_eight<T, false>(const_cast<void*>(element(p.y, p.y_type, row.base + row.place(k))), p.y_type, v[k]);
}

template <class T, bool kLog> __device__ __forceinline__ void forward(const SoftmaxParams& p) {
  __shared__ T space[2][32];
  const Row row = row_of(p);
  Eights<T, kVectors, Types::Common> x;
  read<true>(row, p.x, p.x_type, x);
  T v[kVectors][8];
  x.get(p.x_type, v);
  softmax_row<kLog>(v, p.threads, p.y_type == kBF16 || p.y_type == kF16, space);
  write(p, row, v);
}

template <class T, bool kLog> __device__ __forceinline__ void backward(const SoftmaxParams& p) {
  __shared__ T space[32];
  const Row row = row_of(p);
  Eights<T, kVectors, Types::Common> result, gradient;
  read<false>(row, p.x, p.x_type, result);
  read<false>(row, p.grad, p.grad_type, gradient);
  T y[kVectors][8], g[kVectors][8];
  result.get(p.x_type, y);
  gradient.get(p.grad_type, g);
  softmax_row_backward<kLog>(y, g, p.threads, space);
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
