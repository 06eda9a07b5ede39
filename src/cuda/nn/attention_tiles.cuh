// What the mma.sync attention kernels share: tiles in shared memory, fragments of them, scores and masks.
//
// A tile has kWidth features in a row. Its 16-byte pieces are swizzled by the row, so that the eight rows of an ldmatrix
// are in different banks. Features past the width of the tensor, and rows past its end, are zeros.
#pragma once
#include "cuda/common/index.cuh"
#include "cuda/linalg/mma.cuh"
#include "cuda/linalg/tensor_cores.cuh"
#include "cuda/nn/attention_params.h"

namespace strata::cuda::attention {

using mma::load_matrices;
using mma::multiply;

constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
#define STRATA_INFINITY __int_as_float(0x7f800000)

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Where a tile of rows is: the entry of the batch and its number there. Blocks that run at the same time work on few
// entries, whose keys and values stay in L2.
struct Place {
  int entry, tile, at[kBatchDims];

  static __device__ __forceinline__ Place of(const Params& p, int index, int tiles) {
    Place place = of_entry(p, index / tiles);
    place.tile = index - place.entry * tiles;
    return place;
  }
  static __device__ __forceinline__ Place of_entry(const Params& p, int entry) {
    Place place;
    place.entry = entry;
    place.tile = 0;
    uint32_t rest = entry;
#pragma unroll
    for (int d = kBatchDims - 1; d >= 0; --d) place.at[d] = split_off(rest, p.batch[d]);
    return place;
  }
  __device__ __forceinline__ int64_t offset(const int64_t (&strides)[kBatchDims]) const {
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
  }
  __device__ __forceinline__ uint16_t* matrix(const Matrices& m) const {
    return reinterpret_cast<uint16_t*>(m.address) + offset(m.batch);
  }
};

template <int kWidth> struct Tile {
  static constexpr int kRowBytes = 2 * kWidth, kPieces = kWidth / 8;

  static __device__ __forceinline__ uint32_t offset(int row, int piece) {
    return row * kRowBytes + (piece ^ (row & 7)) * 16;
  }
  // Where a lane's ldmatrix address begins: for fragments whose rows are those of the tile (the left factor, or a
  // transposed right one), and for a right factor whose columns are the rows of the tile.
  static __device__ __forceinline__ uint32_t rows_at(uint32_t tile, int lane) {
    return tile + offset(lane % 16, lane / 16);
  }
  static __device__ __forceinline__ uint32_t columns_at(uint32_t tile, int lane) {
    return tile + offset(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  }
  // 16 rows from `row` and 16 features from `feature`, both multiples of 16. The swizzle is an exclusive or with bits
  // that a row's address does not have.
  template <bool kTransposed>
  static __device__ __forceinline__ void load(uint32_t (&r)[4], uint32_t at, int row, int feature) {
    load_matrices<kTransposed>(r, (at ^ uint32_t(feature * 2)) + row * kRowBytes);
  }
};

// Copies tiles of kRows rows, with kThreads threads, each of which copies the same features of several rows.
template <int kWidth, int kRows, int kThreads> struct Loader {
  static constexpr int kPieces = kWidth / 8, kStep = kThreads / kPieces;
  static_assert(kThreads % kPieces == 0 && kRows % kStep == 0, "a thread copies whole pieces");
  const uint16_t* base;
  int64_t stride;
  int row, piece, bytes, end;

  __device__ __forceinline__ Loader(const uint16_t* matrix, int64_t row_stride, int rows, int width)
      : base(matrix), stride(row_stride), row(threadIdx.x / kPieces), piece(threadIdx.x % kPieces), end(rows) {
    bytes = min(max(width - piece * 8, 0), 8) * 2;
  }
  __device__ __forceinline__ void load(uint32_t tile, int first) const {
    const uint16_t* from = base + int64_t(first + row) * stride + piece * 8;
#pragma unroll
    for (int i = 0; i < kRows; i += kStep, from += kStep * stride) {
      const int there = first + row + i < end ? bytes : 0;
      mma::copy_async(tile + Tile<kWidth>::offset(row + i, piece), there ? from : base, there);
    }
  }
};

// The two matrices that pass by, in tiles of kRows rows and two stages of shared memory.
template <int kWidth, int kRows, int kThreads> struct Passing {
  static constexpr int kTileBytes = kRows * 2 * kWidth;
  const Loader<kWidth, kRows, kThreads> first, second;
  const uint32_t stages;  // address
  const int tiles;

  __device__ __forceinline__ uint32_t stage(int tile) const { return stages + tile % 2 * 2 * kTileBytes; }
  __device__ __forceinline__ void bring(int tile) const {
    if (tile < tiles) {
      first.load(stage(tile), tile * kRows);
      second.load(stage(tile) + kTileBytes, tile * kRows);
    }
    mma::copies_commit();  // an empty group at the end
  }
};

// Writes 16 * kFrags rows of sums, times `factors`, that a warp holds: through `tile`, whose rows no other warp uses.
template <bool kBf16, int kWidth, int kFrags> struct Writer {
  static __device__ __forceinline__ void write(char* tile, const float (&sums)[kFrags][kWidth / 8][4],
                                               const float (&factors)[kFrags][2], uint16_t* to, int64_t stride,
                                               int rows, int width) {
    using T = Tile<kWidth>;
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<uint32_t*>(tile + T::offset(f * 16 + half * 8 + lane / 4, j) + lane % 4 * 4) =
            pack<kBf16>(sums[f][j][half * 2] * factors[f][half], sums[f][j][half * 2 + 1] * factors[f][half]);
    __syncwarp();
    const bool whole = width % 8 == 0 && stride % 8 == 0 && reinterpret_cast<uint64_t>(to) % 16 == 0;
    constexpr int kStep = T::kPieces < 32 ? 32 / T::kPieces : 1;
    const int piece = lane % T::kPieces;
    for (int row = lane / T::kPieces; row < min(16 * kFrags, rows); row += kStep) {
      const char* from = tile + T::offset(row, piece);
      uint16_t* at = to + row * stride + piece * 8;
      if (whole && piece * 8 < width) {
        *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(from);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (piece * 8 + e < width) at[e] = reinterpret_cast<const uint16_t*>(from)[e];
      }
    }
  }
};

template <int kFrags, int kColumns> __device__ __forceinline__ void clear(float (&sums)[kFrags][kColumns][4]) {
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[f][j][e] = 0;
}

// d = a bᵀ: the features of both are dense. a_at: rows_at, b_at: columns_at.
template <bool kBf16, int kWidth, int kFrags, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&d)[kFrags][kColumns][4], uint32_t a_at, uint32_t b_at) {
  using T = Tile<kWidth>;
  clear(d);
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    uint32_t a[kFrags][4];
#pragma unroll
    for (int f = 0; f < kFrags; ++f) T::template load<false>(a[f], a_at, f * 16, k);
#pragma unroll
    for (int j = 0; j < kColumns; j += 2) {
      uint32_t b[4];
      T::template load<false>(b, b_at, j * 8, k);
#pragma unroll
      for (int f = 0; f < kFrags; ++f) {
        multiply<kBf16>(d[f][j], a[f], b[0], b[1]);
        multiply<kBf16>(d[f][j + 1], a[f], b[2], b[3]);
      }
    }
  }
}

// d += w b, where w are weights in registers, whose fragments are those of a left factor after rounding. b_at: rows_at.
template <bool kBf16, int kWidth, int kFrags, int kColumns>
__device__ __forceinline__ void add_weighted(float (&d)[kFrags][kWidth / 8][4], const float (&w)[kFrags][kColumns][4],
                                             uint32_t b_at) {
  using T = Tile<kWidth>;
#pragma unroll
  for (int k = 0; k < kColumns; k += 2) {
    uint32_t a[kFrags][4];
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int i = 0; i < 4; ++i) a[f][i] = pack<kBf16>(w[f][k + i / 2][i % 2 * 2], w[f][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int j = 0; j < kWidth / 8; j += 2) {
      uint32_t b[4];
      T::template load<true>(b, b_at, k * 8, j * 8);
#pragma unroll
      for (int f = 0; f < kFrags; ++f) {
        multiply<kBf16>(d[f][j], a[f], b[0], b[1]);
        multiply<kBf16>(d[f][j + 1], a[f], b[2], b[3]);
      }
    }
  }
}

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

// For kernels with a mask: scales the scores and adds the mask, if there is one. Other kernels scale while they compute
// the exponential, which needs a positive scale.
template <bool kAcross, int kFrags, int kColumns>
__device__ __forceinline__ void add_mask(const Params& p, const Place& place, float (&s)[kFrags][kColumns][4], int row,
                                         int column) {
  const Mask& m = p.mask;
  const char* base = reinterpret_cast<const char*>(m.address);
  const int log_bytes = log_size(m.type);
  const int64_t first = m.address ? place.offset(m.batch) : 0;
  const float scale = p.scale * kLog2E;
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int y = row + f * 16 + e / 2 * 8, x = column + j * 8 + e % 2;
        const int query = kAcross ? x : y, key = kAcross ? y : x;
        float score = s[f][j][e] * scale;
        if (m.address && query < p.rows && key < p.columns) {
          const char* at = base + ((first + query * m.row + key * m.column) << log_bytes);
          if (m.type == kBool) score = *at ? score : -STRATA_INFINITY;
          else if (m.type == kF32) score += *reinterpret_cast<const float*>(at) * kLog2E;
          else if (m.type == kBF16) score += unpack<true>(*reinterpret_cast<const uint16_t*>(at)) * kLog2E;
          else score += unpack<false>(*reinterpret_cast<const uint16_t*>(at)) * kLog2E;
        }
        s[f][j][e] = score;
      }
}

}  // namespace strata::cuda::attention
