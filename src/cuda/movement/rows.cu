// Copies rows that are contiguous in both tensors: joining and cutting along a dimension, padding, expanding.
//
// Bound by memory: units of up to 16 bytes, four of them in flight per thread.
#include "cuda/common/index.cuh"
#include "cuda/movement/rows_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class U> __device__ __forceinline__ void copy_rows(const CopyRowsParams& p) {
  const uint32_t first = blockIdx.x * uint32_t(kThreads * kRowItems) + threadIdx.x;
  int64_t to[kRowItems];
  U moved[kRowItems];
#pragma unroll
  for (int j = 0; j < kRowItems; ++j) {
    uint32_t rest = min(first + j * kThreads, p.total - 1);
    int64_t from = split_off(rest, p.by_row);
    to[j] = from;
    for (int d = 0; d < p.axes; ++d) {
      const int64_t k = split_off(rest, p.size[d]);
      to[j] += k * p.to_stride[d];
      from += k * p.from_stride[d];
    }
    moved[j] = reinterpret_cast<const U*>(p.from)[from];
  }
#pragma unroll
  for (int j = 0; j < kRowItems; ++j)
    if (first + j * kThreads < p.total) reinterpret_cast<U*>(p.to)[to[j]] = moved[j];
}

template <class U> __device__ __forceinline__ void join_rows(const JoinParams& p) {
  const JoinParams::Source& s = p.source[blockIdx.y];
  const uint32_t first = blockIdx.x * uint32_t(kThreads * kRowItems) + threadIdx.x;
  if (first >= s.total) return;
  U moved[kRowItems];
#pragma unroll
  for (int j = 0; j < kRowItems; ++j)
    moved[j] = reinterpret_cast<const U*>(s.from)[min(first + j * kThreads, s.total - 1)];
#pragma unroll
  for (int j = 0; j < kRowItems; ++j) {
    uint32_t row = first + j * kThreads;
    if (row >= s.total) return;
    const uint32_t column = split_off(row, s.width);
    reinterpret_cast<U*>(p.to)[row * p.pitch + s.offset + column] = moved[j];
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) join_rows_2(JoinParams p) { join_rows<uint16_t>(p); }
extern "C" __global__ void __launch_bounds__(256) join_rows_4(JoinParams p) { join_rows<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) join_rows_8(JoinParams p) { join_rows<uint64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) join_rows_16(JoinParams p) { join_rows<uint4>(p); }
extern "C" __global__ void __launch_bounds__(256) copy_rows_2(CopyRowsParams p) { copy_rows<uint16_t>(p); }
extern "C" __global__ void __launch_bounds__(256) copy_rows_4(CopyRowsParams p) { copy_rows<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) copy_rows_8(CopyRowsParams p) { copy_rows<uint64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) copy_rows_16(CopyRowsParams p) { copy_rows<uint4>(p); }

}  // namespace strata::cuda
