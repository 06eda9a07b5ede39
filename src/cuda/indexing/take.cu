// Reads the slices of a table that an index names: rows (embedding, x[index], index_select) or, with an index of its own
// for each element, gather.
//
// Bound by memory: a thread loads all of its indices, then all of its units of up to 16 bytes, then stores them, so that
// several reads of each kind are in flight. A bad index reads slice 0 and is reported at the end: a call among the loads
// would order them. gather along columns of a table that is larger than the L2 cache: blocks finish a slab of columns,
// which fits, before the next one, so that each sector of the table is read once from device memory.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/fault.cuh"
#include "cuda/common/index.cuh"
#include "cuda/indexing/take_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class U, bool kOwnIndex> __device__ __forceinline__ void take(const TakeParams& p) {
  constexpr int kItems = kTakeItems;
  uint32_t block = blockIdx.x;
  if (kOwnIndex && p.slabs) {
    const uint32_t i = split_off(block, p.by_n), slab = split_off(block, p.by_slabs);
    block = (block * p.by_n.divisor + i) * p.slabs + slab;
  }
  const uint32_t first = block * uint32_t(kThreads * kItems) + threadIdx.x;
  int64_t from[kItems], at[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const uint32_t u = min(first + j * kThreads, p.total - 1);
    uint32_t rest = u;
    const uint32_t inner = split_off(rest, p.by_inner), i = split_off(rest, p.by_n);
    from[j] = int64_t(rest) * p.outer_stride + inner;
    const uint32_t place = kOwnIndex ? u : i;
    at[j] = p.index_type == kI64 ? reinterpret_cast<const int64_t*>(p.index)[place]
                                 : int64_t(reinterpret_cast<const int32_t*>(p.index)[place]);
  }
  bool bad = false;
  int64_t found = 0;
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t i = at[j] < 0 && !p.front ? at[j] + p.size : at[j];
    const bool good = i >= 0 && i < p.size;
    if (!good) found = at[j];
    bad |= !good;
    from[j] += good ? i * p.stride : 0;
  }
  U moved[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) moved[j] = reinterpret_cast<const U*>(p.table)[from[j]];
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j * kThreads < p.total) reinterpret_cast<U*>(p.block)[first + j * kThreads] = moved[j];
  if (bad) report(p.faults, FaultCode::Index, found, p.size);
}
}  // namespace

#define STRATA_TAKE(name, U, own) \
  extern "C" __global__ void __launch_bounds__(256) name(TakeParams p) { take<U, own>(p); }
STRATA_TAKE(take_0, uint8_t, false)
STRATA_TAKE(take_1, uint16_t, false)
STRATA_TAKE(take_2, uint32_t, false)
STRATA_TAKE(take_3, uint64_t, false)
STRATA_TAKE(take_4, uint4, false)
STRATA_TAKE(gather_0, uint8_t, true)
STRATA_TAKE(gather_1, uint16_t, true)
STRATA_TAKE(gather_2, uint32_t, true)
STRATA_TAKE(gather_3, uint64_t, true)

}  // namespace strata::cuda
