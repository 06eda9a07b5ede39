// Positions of non-zero elements, in order; elements under a mask.
//
// Bound by memory: elements are read once to count them, since the result's size depends on the count, and once to write
// (compact.cuh).
#include "cuda/common/compact.cuh"
#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/common/units.cuh"
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kItems = 16, kTile = kThreads * kItems;

__device__ __forceinline__ bool is_set(const NonzeroParams& p, int64_t i) {
  if (i >= p.count) return false;
  const void* at = element(p.x, p.type, i);
  switch (p.type) {  // -0 is zero, NaN is not
    case kF8E4M3:
    case kF8E5M2: return (*static_cast<const uint8_t*>(at) & 0x7fu) != 0;
    case kF16:
    case kBF16: return (*static_cast<const uint16_t*>(at) & 0x7fffu) != 0;
    case kF32: return *static_cast<const float*>(at) != 0;
    case kF64: return *static_cast<const double*>(at) != 0;
    default: break;
  }
  switch (log_size(p.type)) {
    case 0: return *static_cast<const uint8_t*>(at) != 0;
    case 1: return *static_cast<const uint16_t*>(at) != 0;
    case 2: return *static_cast<const uint32_t*>(at) != 0;
    default: return *static_cast<const uint64_t*>(at) != 0;
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) count_nonzero(NonzeroParams p) {
  __shared__ uint32_t total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t(blockIdx.x) * kTile + warp * 32 * kItems + lane;
  uint32_t found = 0;
#pragma unroll
  for (int j = 0; j < kItems; ++j) found += __popc(__ballot_sync(kAllLanes, is_set(p, first + j * 32)));
  if (lane == 0) atomicAdd(&total, found);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(p.out), static_cast<unsigned long long>(total));
}

extern "C" __global__ void __launch_bounds__(256) write_nonzero(NonzeroParams p) {
  const Selection s = select_elements(p.words, p.ticket, [&](int64_t i) { return is_set(p, i); });
  s.each([&](int j, int64_t row) {
    if (!s.has(j)) return;
    int64_t* to = reinterpret_cast<int64_t*>(p.out) + row * p.dims;
    uint32_t rest = uint32_t(s.first + j * 32);
    for (int d = 0; d < p.dims; ++d) to[p.dims - 1 - d] = split_off(rest, p.size[d]);
  });
}

// The elements of `source` where x, the mask, is set.
extern "C" __global__ void __launch_bounds__(256) write_masked(NonzeroParams p) {
  const Selection s = select_elements(p.words, p.ticket, [&](int64_t i) { return is_set(p, i); });
  s.each([&](int j, int64_t row) {
    if (s.has(j)) store_unit(p.out, row, p.log_unit, load_unit(p.source, s.first + j * 32, p.log_unit));
  });
}

}  // namespace strata::cuda
