// Dropout of eight neighbouring elements, for its own kernel and for groups of ops, with the same bits.
#pragma once
#include "cuda/creation/philox_blocks.cuh"

namespace strata::cuda {

// The elements from 8 * eighth on. Those whose draw of 32 bits is above `last` are kept, or all.
template <class T, class Keep>
__device__ __forceinline__ void drop_eight(const Blocks& blocks, int64_t eighth, uint32_t last, bool all, T scale,
                                           T (&v)[8], Keep keep) {
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    const PhiloxBlock block = blocks[2 * eighth + b];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool kept = block.word[j] > last || all;
      v[4 * b + j] = kept ? v[4 * b + j] * scale : T(0);
      keep(4 * b + j, kept);
    }
  }
}

// --- in groups -------------------------------------------------------------------------------------------------------------
// Words: seed, first, base, last, all. Number: scale.
struct DropoutRow {
  struct Draw {
    uint64_t seed, first, base;
  };
  template <class Row, class T, class X, class Y, class Mask>
  static __device__ __forceinline__ void run(const Row& row, const T* number, const uint64_t* word, const X& x,
                                             const Y& y, const Mask& mask) {
    const Blocks blocks(Draw{word[0], word[1], word[2]});
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k) {
      T v[8], kept[8];
      x(k, v);
      drop_eight(blocks, (row.base + row.place(k)) / 8, uint32_t(word[3]), word[4] != 0, number[0], v,
                 [&](int j, bool keep) { kept[j] = T(keep); });
      y(k, v);
      mask(k, kept);
    }
  }
};

}  // namespace strata::cuda
