// What the Hopper attention kernels share: memory and barriers of a block, its walk over tiles of rows, TMA loads, and the
// products of a warpgroup.
#pragma once
#include "cuda/linalg/hopper.cuh"
#include "cuda/linalg/tensor_cores.cuh"
#include "cuda/nn/attention_backward.cuh"

namespace strata::cuda::attention {

using namespace hopper;  // NOLINT(google-build-using-namespace): only kernels include this file

// Addresses and barriers of a block.
template <HopperShape kShape> struct Block {
  static constexpr int kChunks = kShape.width / 64, kRowBytes = 128;  // a row of a chunk: 64 features
  uint32_t base;

  __device__ __forceinline__ uint32_t kept(int matrix, int group) const {
    return base + (matrix * kShape.groups + group) * kShape.kept_bytes;
  }
  __device__ __forceinline__ uint32_t passing(int matrix, int stage) const {
    return base + kShape.at_stages + (stage * 2 + matrix) * kShape.tile_bytes;
  }
  __device__ __forceinline__ uint32_t rows(int stage) const {
    return base + kShape.at_rows + stage * kShape.passing * kShape.row_bytes;
  }
  __device__ __forceinline__ uint32_t kept_full() const { return base + kShape.at_barriers; }
  __device__ __forceinline__ uint32_t kept_empty() const { return kept_full() + 8; }
  __device__ __forceinline__ uint32_t full(int matrix, int stage) const {
    return kept_full() + 16 + (stage * 2 + matrix) * 8;
  }
  __device__ __forceinline__ uint32_t empty(int matrix, int stage) const {
    return full(matrix, stage) + 2 * kShape.stages * 8;
  }
  __device__ __forceinline__ void start() const {
    if (threadIdx.x == 0) {
      barrier_init(kept_full(), 1);
      barrier_init(kept_empty(), 4 * kShape.groups);  // one arrival per warp
      for (int s = 0; s < kShape.stages; ++s)
        for (int m = 0; m < 2; ++m) {
          barrier_init(full(m, s), 1);
          barrier_init(empty(m, s), 4 * kShape.groups);
        }
      barrier_init_fence();
    }
    __syncthreads();
  }
  // Says that this warp has read a tile, or the kept rows.
  __device__ __forceinline__ void release(int matrix, int stage) const { release(empty(matrix, stage)); }
  __device__ __forceinline__ void release_kept() const { release(kept_empty()); }

 private:
  static __device__ __forceinline__ void release(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
  }
};

// The tiles of rows that a block computes. With causal attention the work of tile i grows with i: tiles come in pairs,
// one from each end, and all pairs have the same work. So blocks finish together without a common counter.
struct Walk {
  const Params& p;
  const int tiles, units, end;  // units: single tiles or pairs, of an entry of the batch; end: of all entries
  int unit, partner;            // partner: the other tile of the pair, or -1
  Place place;

  __device__ __forceinline__ Walk(const Params& params, int size, int rows)
      : p(params),
        tiles((size + rows - 1) / rows),
        units(p.causal ? (tiles + 1) / 2 : tiles),
        end(units * p.batches),
        unit(blockIdx.x) {
    start();
  }
  __device__ __forceinline__ bool valid() const { return unit < end; }
  __device__ __forceinline__ bool last() const { return partner < 0 && unit + int(gridDim.x) >= end; }
  __device__ __forceinline__ void next() {
    if (partner >= 0) {
      place.tile = partner;
      partner = -1;
      return;
    }
    unit += gridDim.x;
    if (valid()) start();
  }

 private:
  __device__ __forceinline__ void start() {
    place = Place::of(p, unit, units);
    partner = -1;
    if (!p.causal) return;
    const int other = tiles - 1 - place.tile;
    partner = other == place.tile ? -1 : place.tile;
    place.tile = other;
  }
};

// The matrices of a kernel: those kept and those that pass by.
struct Maps {
  const TensorMap &kept_a, &kept_b, &first, &second;
  const Matrices &kept_a_of, &kept_b_of, &first_of, &second_of;
};

template <HopperShape kShape> struct Loads {
  const Block<kShape>& block;
  const Place& place;

  // A matrix that is the same for all entries along a dimension has size 1 there.
  __device__ __forceinline__ void box(uint32_t to, const TensorMap& map, const Matrices& m, uint32_t bar, int x,
                                      int y) const {
    const int at[3] = {m.batch[0] ? place.at[0] : 0, m.batch[1] ? place.at[1] : 0, m.batch[2] ? place.at[2] : 0};
    tma_load(to, map, bar, x, y, at);
  }
  __device__ __forceinline__ void kept(const Maps& maps, int first, uint32_t phase) const {
    barrier_wait(block.kept_empty(), phase ^ 1);  // a fresh barrier reads as "previous phase done"
    barrier_expect_bytes(block.kept_full(), kShape.kept * kShape.groups * kShape.kept_bytes);
    for (int m = 0; m < kShape.kept; ++m)
      for (int g = 0; g < kShape.groups; ++g)
        for (int c = 0; c < block.kChunks; ++c)
          box(block.kept(m, g) + c * 64 * block.kRowBytes, m ? maps.kept_b : maps.kept_a,
              m ? maps.kept_b_of : maps.kept_a_of, block.kept_full(), c * 64, first + g * 64);
  }
  // `extra`: bytes that the caller adds to the first matrix.
  __device__ __forceinline__ void passing(const Maps& maps, int matrix, const Ring<kShape.stages>& ring, int first,
                                          int extra = 0) const {
    const uint32_t bar = block.full(matrix, ring.stage);
    barrier_wait(block.empty(matrix, ring.stage), ring.phase ^ 1);
    barrier_expect_bytes(bar, kShape.tile_bytes + extra);
    for (int c = 0; c < block.kChunks; ++c)
      box(block.passing(matrix, ring.stage) + c * kShape.passing * block.kRowBytes, matrix ? maps.second : maps.first,
          matrix ? maps.second_of : maps.first_of, bar, c * 64, first);
  }
};

// Products of a warpgroup. Sums have the layout of mma.sync fragments.
template <bool kBf16, HopperShape kShape> struct Products {
  static constexpr int kWidth = kShape.width, kPassing = kShape.passing, kRowBytes = 128, kGroup = 8 * kRowBytes;
  using Scores = float[1][kPassing / 8][4];
  using Sums = float[1][kWidth / 8][4];
  using Weights = uint32_t[kPassing / 16][4];

  template <class S> static __device__ __forceinline__ auto& flat(S& s) {
    return reinterpret_cast<float(&)[sizeof(S) / sizeof(float)]>(s);
  }
  // d = kept passingᵀ: features are dense in both.
  static __device__ __forceinline__ void scores(Scores& d, uint32_t kept, uint32_t passing) {
    const uint64_t a = operand(kept, 16, kGroup), b = operand(passing, 16, kGroup);
    using W = Wgmma<kPassing, kBf16, true, true>;
    W::start(flat(d), a, b);
#pragma unroll
    for (int k = 16; k < kWidth; k += 16)
      W::multiply(flat(d), a + ((k / 64 * 64 * kRowBytes + k % 64 * 2) >> 4),
                  b + ((k / 64 * kPassing * kRowBytes + k % 64 * 2) >> 4), 1);
  }
  // d += weights passing
  static __device__ __forceinline__ void weighted(Sums& d, const Weights& w, uint32_t passing) {
    const uint64_t b = operand(passing, kPassing * kRowBytes, kGroup);
#pragma unroll
    for (int k = 0; k < kPassing; k += 16)
      WgmmaRegisters<kWidth, kBf16>::multiply(flat(d), w[k / 16], b + (k * kRowBytes >> 4), 1);
  }
  static __device__ __forceinline__ void round(Weights& w, const Scores& s) {
#pragma unroll
    for (int k = 0; k < kPassing / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        w[k][i] = pack<kBf16>(s[0][k * 2 + i / 2][i % 2 * 2], s[0][k * 2 + i / 2][i % 2 * 2 + 1]);
  }
};

__device__ __forceinline__ const float2* pairs_of(const Params& p, const Place& place) {
  return reinterpret_cast<const float2*>(p.pairs) + int64_t(place.entry) * p.pair_rows;
}

// The walk and the loads of the kernels whose blocks keep queries, while keys and values pass by.
template <HopperShape kShape> struct KeepsQueries {
  const Params& p;
  const Block<kShape>& block;

  __device__ __forceinline__ Walk walk() const { return Walk(p, p.rows, kShape.rows); }
  __device__ __forceinline__ int tiles_of(int first) const {
    return ((p.causal ? min(p.columns, first + kShape.rows) : p.columns) + kShape.passing - 1) / kShape.passing;
  }
  // Tiles go from the last to the first: those with removed scores come first.
  __device__ __forceinline__ void load(const Maps& maps) const {
    Ring<kShape.stages> ring;
    uint32_t phase = 0;
    for (Walk walk = this->walk(); walk.valid(); walk.next(), phase ^= 1) {
      const Loads<kShape> loads{block, walk.place};
      const int first = walk.place.tile * kShape.rows;
      loads.kept(maps, first, phase);
      for (int tile = tiles_of(first) - 1; tile >= 0; --tile, ring.step()) {
        loads.passing(maps, 0, ring, tile * kShape.passing);
        loads.passing(maps, 1, ring, tile * kShape.passing);
      }
    }
  }
};

// Replaces the elements of keys past the end or in the future. `row` and `column` are those of a lane's first element;
// kAcross: the fragments' rows are keys and their columns are queries.
template <bool kAcross, int kFrags, int kColumns>
__device__ __forceinline__ void remove_outside(const Params& p, float (&s)[kFrags][kColumns][4], int row, int column,
                                               float by) {
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int y = row + f * 16 + half * 8;
      // Columns of this row that stay: up to `most`, or from `least` on.
      const int most = (p.causal ? min(y, p.columns - 1) : p.columns - 1) - column;
      const int least = y >= p.columns ? 0x7fffffff : (p.causal ? y : 0) - column;
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (kAcross ? j * 8 + e < least : j * 8 + e > most) s[f][j][half * 2 + e] = by;
    }
}

// Writes a warpgroup's 64 rows.
template <bool kBf16, HopperShape kShape>
__device__ __forceinline__ void write_group(char* memory, int group, const float (&sums)[1][kShape.width / 8][4],
                                            const float (&factors)[1][2], uint16_t* matrix, int64_t stride, int first,
                                            int end, int width) {
  const int own = threadIdx.x % 128 / 32 * 16;
  Writer<kBf16, kShape.width, 1>::write(memory + kShape.at_out + group * kShape.kept_bytes + own * 2 * kShape.width,
                                        sums, factors, matrix + (first + own) * stride, stride, end - first - own,
                                        width);
}

}  // namespace strata::cuda::attention
