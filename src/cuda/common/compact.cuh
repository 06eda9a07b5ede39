// Compaction: the elements that a condition selects, numbered in order, in one launch.
//
// A block takes a tile of 4096 elements and a warp 512 consecutive ones. A warp counts by ballots, warps add up in shared
// memory, blocks by look-back. No atomics decide about positions, so that the result is ordered and reproducible.
#pragma once
#include "cuda/common/look_back.cuh"

namespace strata::cuda {

constexpr int kCompactThreads = 256, kCompactWarps = 8, kCompactItems = 16;
constexpr int kCompactTile = kCompactThreads * kCompactItems;

// What a thread knows of its elements: element j is number first + j * 32 of all.
struct Selection {
  int64_t first;
  uint32_t masks[kCompactItems];  // lanes of the warp whose element j is selected
  int64_t before;                 // selected elements before those of this warp

  __device__ bool has(int j) const { return masks[j] >> (threadIdx.x % 32) & 1; }
  // Calls f(j, number) for each element of this thread, with the number of selected elements before it.
  template <class F> __device__ __forceinline__ void each(const F& f) const {
    int64_t row = before;
#pragma unroll
    for (int j = 0; j < kCompactItems; ++j) {
      f(j, row + __popc(masks[j] & ((1u << (threadIdx.x % 32)) - 1)));
      row += __popc(masks[j]);
    }
  }
};

// set(i) tells whether element i is selected: false past the end. All threads of the block call it.
template <class Set>
__device__ __forceinline__ Selection select_elements(uint64_t words, uint64_t ticket, const Set& set) {
  __shared__ int32_t of_warp[kCompactWarps];
  __shared__ uint32_t taken;
  __shared__ int64_t before_tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t tile = next_tile(ticket, taken);
  Selection s;
  s.first = tile * kCompactTile + warp * 32 * kCompactItems + lane;
  int32_t found = 0;
#pragma unroll
  for (int j = 0; j < kCompactItems; ++j) {
    s.masks[j] = __ballot_sync(kAllLanes, set(s.first + j * 32));
    found += __popc(s.masks[j]);
  }
  if (lane == 0) of_warp[warp] = found;
  __syncthreads();
  if (warp == 0) {
    int32_t own = 0;
    for (int w = 0; w < kCompactWarps; ++w) own += of_warp[w];
    const int64_t before = count_before(words, tile, own);
    if (lane == 0) before_tile = before;
    __syncwarp();  // the barrier needs whole warps
  }
  __syncthreads();
  s.before = before_tile;
  for (int w = 0; w < warp; ++w) s.before += of_warp[w];
  return s;
}

}  // namespace strata::cuda
