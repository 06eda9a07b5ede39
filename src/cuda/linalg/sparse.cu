// Products with sparse matrices in compressed rows.
//
// Bound by memory. A thread computes one element of a wide result, so that neighbouring lanes read neighbouring elements
// of a row of the table; of a narrow result a warp computes one, its lanes sharing the elements of the sparse row.
// Elements are added in an order that depends on the shapes alone.
#include "cuda/common/fault.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/linalg/sparse_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class T> __device__ __forceinline__ T* data(uint64_t address) { return reinterpret_cast<T*>(address); }

__device__ __forceinline__ int64_t row_in_range(const FaultSink& faults, int64_t row, int64_t rows) {
  if (row >= 0 && row < rows) return row;
  report(faults, FaultCode::Index, row, rows);
  return 0;
}
struct Range {
  int64_t begin, end;
};
__device__ __forceinline__ Range elements_of(const CompressedProductParams& p, int64_t row) {
  const int64_t begin = data<const int64_t>(p.starts)[row], end = data<const int64_t>(p.starts)[row + 1];
  if (begin >= 0 && begin <= end && end <= p.count) return {begin, end};
  report(p.faults, FaultCode::Index, begin < 0 || begin > p.count ? begin : end, p.count + 1);
  return {0, 0};
}
template <class T> __device__ __forceinline__ T term(const CompressedProductParams& p, int64_t k, int64_t column) {
  if (p.table_rows == 0) {
    report(p.faults, FaultCode::Index, data<const int64_t>(p.columns)[k], 0);
    return T(0);
  }
  const int64_t row = row_in_range(p.faults, data<const int64_t>(p.columns)[k], p.table_rows);
  return data<const T>(p.values)[k] * data<const T>(p.table)[row * p.n + column];
}

template <class T> __device__ __forceinline__ void wide(const CompressedProductParams& p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.rows * p.n) return;
  const Range range = elements_of(p, i / p.n);
  T sum = 0;
  for (int64_t k = range.begin; k < range.end; ++k) sum += term<T>(p, k, i % p.n);
  data<T>(p.out)[i] = sum;
}
template <class T> __device__ __forceinline__ void narrow(const CompressedProductParams& p) {
  const int64_t i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (i >= p.rows * p.n) return;
  const int lane = threadIdx.x % 32;
  const Range range = elements_of(p, i / p.n);
  T sum = 0;
  for (int64_t k = range.begin + lane; k < range.end; k += 32) sum += term<T>(p, k, i % p.n);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (lane == 0) data<T>(p.out)[i] = sum;
}

template <class T> __device__ __forceinline__ void multiply(const RowProductsParams& p) {
  const int64_t k = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (k >= p.count) return;
  const int lane = threadIdx.x % 32;
  const int64_t row_a = data<const int64_t>(p.a_rows)[k], row_b = data<const int64_t>(p.b_rows)[k];
  T sum = 0;
  if (p.a_count > 0 && p.b_count > 0) {
    const T* a = data<const T>(p.a) + row_in_range(p.faults, row_a, p.a_count) * p.n;
    const T* b = data<const T>(p.b) + row_in_range(p.faults, row_b, p.b_count) * p.n;
    for (int64_t j = lane; j < p.n; j += 32) sum += a[j] * b[j];
  } else {
    report(p.faults, FaultCode::Index, p.a_count > 0 ? row_b : row_a, 0);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (lane == 0) data<T>(p.out)[k] = sum;
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) compressed_wide_f(CompressedProductParams p) { wide<float>(p); }
extern "C" __global__ void __launch_bounds__(256) compressed_wide_d(CompressedProductParams p) { wide<double>(p); }
extern "C" __global__ void __launch_bounds__(256) compressed_narrow_f(CompressedProductParams p) { narrow<float>(p); }
extern "C" __global__ void __launch_bounds__(256) compressed_narrow_d(CompressedProductParams p) { narrow<double>(p); }
extern "C" __global__ void __launch_bounds__(256) row_products_f(RowProductsParams p) { multiply<float>(p); }
extern "C" __global__ void __launch_bounds__(256) row_products_d(RowProductsParams p) { multiply<double>(p); }

}  // namespace strata::cuda
