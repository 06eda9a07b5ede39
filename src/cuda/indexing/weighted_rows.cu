// Weighted sums of rows of a table, and what their gradients need.
//
// Bound by memory: a thread computes one column of one sum, so that neighbouring lanes read neighbouring elements of a
// row. Products of rows use one warp each.
#include "cuda/common/fault.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/indexing/weighted_rows_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class T> __device__ __forceinline__ T* data(uint64_t address) { return reinterpret_cast<T*>(address); }
__device__ __forceinline__ int64_t row_at(const WeightedRowsParams& p, int64_t place) {
  const int64_t row = data<const int64_t>(p.indices)[place];
  if (row >= 0 && row < p.rows) return row;
  report(p.faults, FaultCode::Index, row, p.rows);
  return 0;
}

// sums[bag][j] = sum over l of weights[bag][l] * table[indices[bag][l]][j]
template <class T> __device__ __forceinline__ void sum_rows(const WeightedRowsParams& p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.bags * p.n) return;
  const int64_t bag = i / p.n, column = i % p.n;
  T sum = 0;
  for (int64_t l = bag * p.each; l < (bag + 1) * p.each; ++l) {
    const int64_t row = row_at(p, l);
    const T w = data<const T>(p.weights)[l];
    if (w != T(0)) sum += w * data<const T>(p.table)[row * p.n + column];
  }
  data<T>(p.sums)[i] = sum;
}

// table[bag * each + l][j] = weights[bag][l] * sums[bag][j]: the rows that the gradient of the table adds up.
template <class T> __device__ __forceinline__ void spread_rows(const WeightedRowsParams& p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.bags * p.each * p.n) return;
  const int64_t place = i / p.n, column = i % p.n;
  data<T>(p.table)[i] = data<const T>(p.weights)[place] * data<const T>(p.sums)[place / p.each * p.n + column];
}

// weights[bag][l] = the product of sums[bag] and table[indices[bag][l]]
template <class T> __device__ __forceinline__ void multiply_rows(const WeightedRowsParams& p) {
  const int64_t place = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (place >= p.bags * p.each) return;
  const T* row = data<const T>(p.table) + row_at(p, place) * p.n;
  const T* grad = data<const T>(p.sums) + place / p.each * p.n;
  T sum = 0;
  for (int64_t j = lane; j < p.n; j += 32) sum += row[j] * grad[j];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (lane == 0) data<T>(p.weights)[place] = sum;
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) weighted_rows_f(WeightedRowsParams p) { sum_rows<float>(p); }
extern "C" __global__ void __launch_bounds__(256) weighted_rows_d(WeightedRowsParams p) { sum_rows<double>(p); }
extern "C" __global__ void __launch_bounds__(256) spread_rows_f(WeightedRowsParams p) { spread_rows<float>(p); }
extern "C" __global__ void __launch_bounds__(256) spread_rows_d(WeightedRowsParams p) { spread_rows<double>(p); }
extern "C" __global__ void __launch_bounds__(256) multiply_rows_f(WeightedRowsParams p) { multiply_rows<float>(p); }
extern "C" __global__ void __launch_bounds__(256) multiply_rows_d(WeightedRowsParams p) { multiply_rows<double>(p); }

}  // namespace strata::cuda
