// Entries of a key and an index, and a bitonic network that sorts a block's worth of them. The order of entries is
// total, so the result is that of a stable sort.
#pragma once
#include "cuda/order/sort_keys.cuh"
#include "cuda/order/sort_params.h"

namespace strata::cuda {

struct Packed {  // a key of up to 32 bits and its index in one word
  using Key = uint32_t;
  uint64_t word;
  static __device__ Packed make(Key key, uint32_t place) { return {uint64_t(key) << 32 | place}; }
  __device__ uint32_t place() const { return uint32_t(word); }
  __device__ bool above(const Packed& o) const { return word > o.word; }
};
struct Pair {
  using Key = uint64_t;
  uint64_t key, at;
  static __device__ Pair make(Key key, uint32_t place) { return {key, place}; }
  __device__ uint32_t place() const { return uint32_t(at); }
  __device__ bool above(const Pair& o) const { return key > o.key || (key == o.key && at > o.at); }
};
template <class E> __device__ __forceinline__ E after_all() { return E::make(~typename E::Key(0), ~0u); }

// Sorts each group of `padded` (a power of two) of the block's kSortBlock entries. Begins and ends with a barrier.
template <class E> __device__ __forceinline__ void bitonic_sort(E* entries, int padded) {
  for (int size = 2; size <= padded; size *= 2)
    for (int half = size / 2; half > 0; half /= 2) {
      __syncthreads();
      for (int c = threadIdx.x; c < kSortBlock / 2; c += blockDim.x) {
        const int low = (c & (half - 1)) | (c & ~(half - 1)) << 1, high = low | half;
        const bool up = (low & size & (padded - 1)) == 0;  // the last merge is ascending
        const E a = entries[low], b = entries[high];
        if (a.above(b) == up) {
          entries[low] = b;
          entries[high] = a;
        }
      }
    }
  __syncthreads();
}

}  // namespace strata::cuda
