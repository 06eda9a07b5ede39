// Positions of non-zero elements, in order.
//
// Bound by memory: elements are read twice. A block takes 4096 elements; the first kernel counts, the counts are scanned
// (cuda/reduce/scan.cu), the second writes: each warp has 512 neighbours and places them by ballots.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kWarps = 8, kItems = 16, kTile = kThreads * kItems;
constexpr uint32_t kAll = 0xffffffffu;

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
  __shared__ int32_t of_warp[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t(blockIdx.x) * kTile + warp * 32 * kItems + lane;
  int32_t found = 0;
#pragma unroll
  for (int j = 0; j < kItems; ++j) found += __popc(__ballot_sync(kAll, is_set(p, first + j * 32)));
  if (lane == 0) of_warp[warp] = found;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int32_t total = 0;
  for (int w = 0; w < kWarps; ++w) total += of_warp[w];
  reinterpret_cast<int32_t*>(p.counts)[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(256) write_nonzero(NonzeroParams p) {
  __shared__ int32_t of_warp[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t(blockIdx.x) * kTile + warp * 32 * kItems + lane;
  uint32_t masks[kItems];
  int32_t found = 0;
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    masks[j] = __ballot_sync(kAll, is_set(p, first + j * 32));
    found += __popc(masks[j]);
  }
  if (lane == 0) of_warp[warp] = found;
  __syncthreads();
  int64_t row = blockIdx.x > 0 ? reinterpret_cast<const int32_t*>(p.counts)[blockIdx.x - 1] : 0;
  for (int w = 0; w < warp; ++w) row += of_warp[w];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    if (masks[j] >> lane & 1) {
      int64_t* to = reinterpret_cast<int64_t*>(p.out) + (row + __popc(masks[j] & ((1u << lane) - 1))) * p.dims;
      uint32_t rest = uint32_t(first + j * 32);
      for (int d = 0; d < p.dims; ++d) to[p.dims - 1 - d] = split_off(rest, p.size[d]);
    }
    row += __popc(masks[j]);
  }
}

}  // namespace strata::cuda
