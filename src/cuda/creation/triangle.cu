// The lower or upper triangle of each matrix, zeros elsewhere.
//
// Bound by memory: each element is read (if it is kept) and written once; a thread has four in flight.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/common/units.cuh"
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {
namespace {
constexpr int kThreads = 256, kItems = 4;
}

extern "C" __global__ void __launch_bounds__(256) triangle(TriangleParams p) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kItems + threadIdx.x;
  const int log_unit = log_size(p.type);
  Unit moved[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t e = first + j * kThreads;
    moved[j].u128 = make_uint4(0, 0, 0, 0);
    if (e >= p.count) continue;
    int64_t row, column;
    if (p.count <= 0x7fffffff) {
      uint32_t rest = uint32_t(e);
      column = split_off(rest, p.columns);
      row = split_off(rest, p.rows);
    } else {
      column = e % p.wide_columns;
      row = e / p.wide_columns % p.wide_rows;
    }
    if (p.lower ? column - row <= p.diagonal : column - row >= p.diagonal) moved[j] = load_unit(p.x, e, log_unit);
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j * kThreads < p.count) store_unit(p.out, first + j * kThreads, log_unit, moved[j]);
}

}  // namespace strata::cuda
