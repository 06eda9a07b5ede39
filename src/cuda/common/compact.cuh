// Compaction: the elements that a condition selects, numbered in order, in one launch.
//
// A block takes a tile of 4096 elements and a warp 512 consecutive ones. Warps add up in shared memory, blocks by
// look-back. No atomics decide about positions, so that the result is ordered and reproducible. compact_elements collects
// the selected elements of a tile in shared memory, so that stores leave no gaps; select_elements tells each thread about
// all of its elements.
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

// The first of a warp's 512 elements of a tile, and those of its lanes as 16 consecutive bits each, from set(i). All
// threads of the warp call it.
__device__ __forceinline__ int64_t warp_elements(int64_t tile) {
  return tile * kCompactTile + int64_t(threadIdx.x / 32) * 32 * kCompactItems;
}
template <class Set> __device__ __forceinline__ uint32_t ballot_bits(int64_t first, const Set& set) {
  const int lane = threadIdx.x % 32;
  uint32_t own = 0;
#pragma unroll
  for (int j = 0; j < kCompactItems; ++j) {
    const uint32_t mask = __ballot_sync(kAllLanes, set(first + j * 32 + lane));
    if (j == lane / 2) own = mask;
  }
  return lane % 2 ? own >> 16 : own & 0xffffu;
}

// bits(first) are 16 bits per lane: which of the elements first + 16 * lane + k of its warp are selected. put(number, i)
// is called for each selected element i, with neighbouring threads for neighbouring numbers. All threads call it.
template <class Bits, class Put>
__device__ __forceinline__ void compact_elements(uint64_t words, uint64_t ticket, const Bits& bits, const Put& put) {
  __shared__ uint16_t places[kCompactTile];
  __shared__ int32_t of_warp[kCompactWarps];
  __shared__ uint32_t taken;
  __shared__ int64_t before_tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t tile = next_tile(ticket, taken);
  const uint32_t set = bits(warp_elements(tile));
  const int32_t count = __popc(set);
  int32_t up_to = count;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const int32_t below = __shfl_up_sync(kAllLanes, up_to, by);
    if (lane >= by) up_to += below;
  }
  if (lane == 31) of_warp[warp] = up_to;
  __syncthreads();
  int32_t at = up_to - count, all = 0;
#pragma unroll
  for (int w = 0; w < kCompactWarps; ++w) {
    if (w < warp) at += of_warp[w];
    all += of_warp[w];
  }
  if (warp == 0) {
    const int64_t before = count_before(words, tile, all);
    if (lane == 0) before_tile = before;
  }
#pragma unroll
  for (int k = 0; k < kCompactItems; ++k)
    if (set >> k & 1) places[at++] = uint16_t(threadIdx.x * kCompactItems + k);
  __syncwarp();  // the barrier needs whole warps
  __syncthreads();
  const int64_t before = before_tile, first = tile * kCompactTile;
#pragma unroll 4
  for (int k = threadIdx.x; k < all; k += kCompactThreads) put(before + k, first + places[k]);
}

}  // namespace strata::cuda
