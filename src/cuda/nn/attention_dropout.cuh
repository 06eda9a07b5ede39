// Dropout of the weights of attention: draw i of the reserved ones is that of element i of the matrix of weights, as if the
// op dropout had the whole matrix.
#pragma once
#include "cuda/nn/attention_tiles.cuh"
#include "device/philox.h"

namespace strata::cuda::attention {

// The draws of the weights of one entry of the batch.
class Draws {
 public:
  __device__ __forceinline__ Draws(const Params& p, const Place& place)
      : last_(p.last_dropped),
        columns_(p.columns),
        begin_(int64_t(place.entry) * p.rows * p.columns),
        lane_(threadIdx.x % 32) {
    const uint64_t* draws = reinterpret_cast<const uint64_t*>(p.draws);
    seed_ = draws[0];
    first_ = draws[1];
  }

  // Bit 4 j + e of bits[f]: whether element [f][j][e] of a lane's fragments is kept. `row` and `column`: of its first element;
  // kAcross: the fragments' rows are keys and their columns are queries.
  template <bool kAcross, int kFrags, int kColumns>
  __device__ __forceinline__ void find(uint32_t (&bits)[kFrags], int row, int column) const {
    static_assert(kColumns <= 8, "a bit for each element");
    const bool aligned = columns_ % 4 == 0;  // then four keys of a query have the same block
#pragma unroll
    for (int f = 0; f < kFrags; ++f) {
      bits[f] = 0;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int y = row + f * 16, x = column + j * 8;
        uint32_t four = 0;
        if (!aligned) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int down = y + e / 2 * 8, across = x + e % 2;
            const int64_t at = kAcross ? place(across, down) : place(down, across);
            four |= uint32_t(word(block(at), int(at % 4)) > last_) << e;
          }
        } else if constexpr (kAcross) {
          four = across_lanes(y, x);
        } else {
          four = along_rows(y, x);
        }
        bits[f] |= four << (4 * j);
      }
    }
  }

 private:
  __device__ __forceinline__ int64_t place(int query, int key) const {
    return begin_ + int64_t(query) * columns_ + key;
  }
  __device__ __forceinline__ PhiloxBlock block(int64_t element) const {
    return philox(seed_, first_ + uint64_t(element) / 4);
  }
  static __device__ __forceinline__ uint32_t word(const PhiloxBlock& b, int i) {
    const uint32_t low = i & 1 ? b.word[1] : b.word[0], high = i & 1 ? b.word[3] : b.word[2];
    return i & 2 ? high : low;
  }
  // Two neighbouring lanes share the blocks of two rows: each computes one, and they exchange halves.
  __device__ __forceinline__ uint32_t along_rows(int y, int x) const {
    const int odd = lane_ & 1;
    const PhiloxBlock b = block(place(y + odd * 8, x));
    const uint32_t own = uint32_t(word(b, 2 * odd) > last_) | uint32_t(word(b, 2 * odd + 1) > last_) << 1;
    const uint32_t sent = uint32_t(word(b, 2 - 2 * odd) > last_) | uint32_t(word(b, 3 - 2 * odd) > last_) << 1;
    const uint32_t got = __shfl_xor_sync(0xffffffffu, sent, 1);
    return odd ? got | own << 2 : own | got << 2;
  }
  // Four lanes have neighbouring keys: each computes the block of one of their four elements, for all of them.
  __device__ __forceinline__ uint32_t across_lanes(int y, int x) const {
    const int mine = lane_ / 4 % 4;
    const PhiloxBlock b = block(place(x + mine % 2, y - mine + mine / 2 * 8));
    uint32_t kept = 0;  // bit k: of the k-th of the four keys
#pragma unroll
    for (int k = 0; k < 4; ++k) kept |= uint32_t(b.word[k] > last_) << k;
    uint32_t four = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int from = (lane_ & ~12) | e << 2;
      four |= (__shfl_sync(0xffffffffu, kept, from) >> mine & 1) << e;
    }
    return four;
  }

  uint64_t seed_, first_;
  uint32_t last_;
  int columns_;
  int64_t begin_;
  int lane_;
};

template <int kFrags, int kColumns>
__device__ __forceinline__ void drop(float (&s)[kFrags][kColumns][4], const uint32_t (&bits)[kFrags], float scale) {
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[f][j][e] = bits[f] >> (4 * j + e) & 1 ? s[f][j][e] * scale : 0;
}

}  // namespace strata::cuda::attention
