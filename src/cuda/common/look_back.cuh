// Look-back: blocks that process tiles in order learn the total count of the tiles before theirs, in one launch.
//
// A word per tile holds a count and, above it, whether it is the tile's own or that of all tiles up to it; words are 0 at
// first. Blocks take their tiles by a ticket, so a block only waits for blocks that are running. Sums of integers do not
// depend on the order.
#pragma once
#include "cuda/common/warp.cuh"

#include <stdint.h>

namespace strata::cuda {

constexpr int kCountBits = 62;
constexpr uint64_t kWholeCount = 2ull << kCountBits, kCountMask = (1ull << kCountBits) - 1;

// Takes the next tile. All threads of the block call it.
__device__ __forceinline__ int64_t next_tile(uint64_t ticket, uint32_t& shared) {
  if (threadIdx.x == 0) shared = atomicAdd(reinterpret_cast<uint32_t*>(ticket), 1u);
  __syncthreads();
  return shared;
}

// Publishes the count of a tile and returns that of all tiles before it. Called by one warp.
__device__ __forceinline__ int64_t count_before(uint64_t words, int64_t tile, int64_t own) {
  auto* at = reinterpret_cast<volatile uint64_t*>(words);
  const int lane = threadIdx.x % 32;
  if (lane == 0) at[tile] = (tile > 0 ? 1ull : 2ull) << kCountBits | uint64_t(own);
  if (tile == 0) return 0;
  uint64_t before = 0;
  for (int64_t last = tile - 1;;) {  // a window of 32 tiles
    const uint64_t word = last >= lane ? at[last - lane] : 2ull << kCountBits;
    const uint32_t ready = __ballot_sync(kAllLanes, word != 0), whole = __ballot_sync(kAllLanes, word >= kWholeCount);
    const uint32_t needed = whole ? whole ^ (whole - 1) : kAllLanes;  // up to the nearest whole count
    if ((ready & needed) != needed) continue;
    uint64_t sum = needed >> lane & 1 ? word & kCountMask : 0;
#pragma unroll
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(sum), by);
    before += sum;
    if (whole) break;
    last -= 32;
  }
  if (lane == 0) at[tile] = kWholeCount | (before + uint64_t(own));
  return int64_t(before);
}

}  // namespace strata::cuda
