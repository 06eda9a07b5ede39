// Parts of radix sorts: a block ranks its elements by a digit of eight bits, stably.
//
// A block has kRadixThreads threads of kItems elements each. Element j of a thread is number
// warp * 32 * kItems + j * 32 + lane of the block, so that loads are coalesced.
#pragma once
#include "cuda/common/warp.cuh"
#include "cuda/order/sort_keys.cuh"
#include "cuda/order/sort_params.h"

namespace strata::cuda {

constexpr int kRadixWarps = kRadixThreads / 32;

// The digits of the keys of elements, in reverse order if `flip`.
template <class Bits> struct Digits {
  KeyOrder<Bits> order;
  Bits turn;
  __device__ Digits(int32_t type, bool flip) : order(type), turn(flip ? Bits(~Bits(0)) : Bits(0)) {}
  __device__ __forceinline__ uint32_t operator()(Bits bits, int shift) const {
    return uint32_t(Bits(order(bits) ^ turn) >> shift) & uint32_t(kRadixDigits - 1);
  }
};

template <int kItems> __device__ __forceinline__ int own_element(int j) {
  return int(threadIdx.x / 32) * 32 * kItems + j * 32 + int(threadIdx.x % 32);
}

// The digits of a thread's elements, computed once. Elements past the end have the last digit, so that they come after all
// others.
template <int kItems> struct OwnDigits {
  uint32_t four[kItems / 4];
  template <class Bits>
  __device__ __forceinline__ OwnDigits(const Digits<Bits>& digits, const Bits (&keys)[kItems], int shift, int count) {
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const uint32_t digit = own_element<kItems>(j) < count ? digits(keys[j], shift) : uint32_t(kRadixDigits - 1);
      four[j / 4] = j % 4 ? four[j / 4] | digit << (j % 4 * 8) : digit;
    }
  }
  __device__ __forceinline__ uint32_t operator()(int j) const {
    return four[j / 4] >> (j % 4 * 8) & uint32_t(kRadixDigits - 1);
  }
};

// The lanes with the same digit: one vote per bit takes as long for any digits, unlike match.any.
__device__ __forceinline__ uint32_t lanes_with(uint32_t digit) {
  uint32_t same = kAllLanes;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const bool set = digit >> bit & 1;
    const uint32_t votes = __ballot_sync(kAllLanes, set);
    same &= set ? votes : ~votes;
  }
  return same;
}

// The sum of `own` over the threads below this one, of the first kRadixDigits threads. All threads call it.
__device__ __forceinline__ uint32_t sum_below(uint32_t own, uint32_t (&of_warp)[kRadixDigits / 32]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t up_to = own;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, up_to, by);
    if (lane >= by) up_to += below;
  }
  if (warp < kRadixDigits / 32 && lane == 31) of_warp[warp] = up_to;
  __syncthreads();
  uint32_t before = up_to - own;
  for (int w = 0; w < warp && w < kRadixDigits / 32; ++w) before += of_warp[w];
  return before;
}

// Shared memory of a block that ranks elements and moves them to their ranks.
template <class Bits, int kItems> struct RadixShared {
  static constexpr int kTile = kRadixThreads * kItems;
  union {
    uint32_t counts[kRadixWarps][kRadixDigits];
    Bits keys[kTile];
    uint32_t places[kTile];
  };
  uint32_t of_warp[kRadixDigits / 32];
  uint32_t starts[kRadixDigits];  // rank of the first element of each digit
};

// Adds to rank[j] the rank of each of the block's elements by digit(j). `total(count)` is called with the block's number
// of elements of digit threadIdx.x, as soon as that is known. Begins and ends with a barrier.
template <class Bits, int kItems, class Total>
__device__ __forceinline__ void rank_elements(RadixShared<Bits, kItems>& s, const OwnDigits<kItems>& digit,
                                              const Total& total, uint32_t (&rank)[kItems]) {
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  __syncthreads();
  for (int c = thread; c < kRadixWarps * kRadixDigits; c += kRadixThreads) s.counts[0][c] = 0;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const uint32_t d = digit(j), same = lanes_with(d), below = same & ((1u << lane) - 1);
    const uint32_t before = s.counts[warp][d];
    __syncwarp();
    if (below == 0) s.counts[warp][d] = before + __popc(same);
    __syncwarp();
    rank[j] += before + __popc(below);
  }
  __syncthreads();
  uint32_t count = 0;
  if (thread < kRadixDigits) {
#pragma unroll
    for (int w = 0; w < kRadixWarps; ++w) {
      const uint32_t own = s.counts[w][thread];
      s.counts[w][thread] = count;
      count += own;
    }
    total(count);
  }
  const uint32_t start = sum_below(count, s.of_warp);
  if (thread < kRadixDigits) s.starts[thread] = start;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const uint32_t d = digit(j);
    rank[j] += s.counts[warp][d] + s.starts[d];
  }
  __syncthreads();
}

}  // namespace strata::cuda
