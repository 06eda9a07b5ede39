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

// What a block computes: of one entry of the batch, the rows of one sequence.
struct Part {
  Place place;
  int sequence, tile, rows, columns, first_row, first_column, diagonal;

  static __device__ __forceinline__ Part of(const Params& p, int index, int tiles) {
    const int entry = index / tiles;
    Part part = of_entry(p, entry);
    part.tile = index - entry * tiles;
    return part;
  }
  static __device__ __forceinline__ Part of_entry(const Params& p, int entry) {
    Part part;
    part.tile = part.first_row = part.first_column = 0;
    part.rows = p.rows;
    part.columns = p.columns;
    part.sequence = p.row_starts ? entry / p.batches : 0;
    part.place = Place::of_entry(p, entry - part.sequence * p.batches);
    if (p.row_starts) {
      part.find(p.row_starts, p.total_rows, p.rows, part.first_row, part.rows);
      part.find(p.column_starts, p.total_columns, p.columns, part.first_column, part.columns);
    }
    part.diagonal = p.from_end ? part.columns - part.rows : 0;
    return part;
  }
  // Starts that are invalid are reported by a kernel of their own; here they cause no access out of bounds.
  __device__ __forceinline__ void find(uint64_t starts, int total, int longest, int& first, int& count) const {
    const int* at = reinterpret_cast<const int*>(starts) + sequence;
    first = min(max(at[0], 0), total);
    count = min(min(max(at[1], first), total) - first, longest);
  }
  __device__ __forceinline__ uint16_t* queries(const Matrices& m) const { return place.matrix(m) + first_row * m.row; }
  __device__ __forceinline__ uint16_t* keys(const Matrices& m) const { return place.matrix(m) + first_column * m.row; }
  __device__ __forceinline__ float* log_sums(const Params& p) const {
    return reinterpret_cast<float*>(p.log_sums) + int64_t(place.entry) * p.total_rows + first_row;
  }
  // The pairs of each sequence begin at a multiple of kPairRows, so that there are pairs for whole tiles of queries.
  __device__ __forceinline__ float2* pairs(const Params& p) const {
    const int64_t first = p.row_starts ? int64_t(first_row / kPairRows + sequence) * kPairRows : 0;
    return reinterpret_cast<float2*>(p.pairs) + int64_t(place.entry) * p.pair_rows + first;
  }
  __device__ __forceinline__ int first_column_of(const Params& p, int row) const {
    return max(row + diagonal - p.left, 0);
  }
  __device__ __forceinline__ int end_column_of(const Params& p, int row) const {
    return min(row + diagonal + p.right + 1, columns);
  }
  __device__ __forceinline__ int first_row_of(const Params& p, int column) const {
    return max(column - diagonal - p.right, 0);
  }
  __device__ __forceinline__ int end_row_of(const Params& p, int column) const {
    return min(column - diagonal + p.left + 1, rows);
  }
  // Whether the scores of a tile of rows and columns contain some that are removed.
  __device__ __forceinline__ bool removes(const Params& p, int row, int row_count, int column, int column_count) const {
    return column + column_count > end_column_of(p, row) || column < row + row_count - 1 + diagonal - p.left;
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

// Rows whose keys pass by: the weighted sum of values and, for each row, the maximum of the scores and the lane's part of
// the sum of weights.
template <int kWidth, int kFrags, int kKeys> struct RunningRows {
  float out[kFrags][kWidth / 8][4];
  float most[kFrags][2], sums[kFrags][2];

  __device__ __forceinline__ void start() {
    clear(out);
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        most[f][half] = -STRATA_INFINITY;
        sums[f][half] = 0;
      }
  }
  // Turns scores into weights, and updates maxima and sums. The scores are multiplied by a positive factor first.
  __device__ __forceinline__ void weigh(float (&s)[kFrags][kKeys / 8][4], float factor) {
    float by[kFrags][2];
    bool grew = false;
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = most[f][half];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) top = fmaxf(top, fmaxf(s[f][j][half * 2], s[f][j][half * 2 + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const float shift = top == -STRATA_INFINITY ? 0 : top * factor;  // nothing to attend to yet
        by[f][half] = exp2_approximate(most[f][half] * factor - shift);
        grew |= top != most[f][half];
        most[f][half] = top;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            s[f][j][e] = exp2_approximate(s[f][j][e] * factor - shift);
            sum += s[f][j][e];
          }
        sums[f][half] = sums[f][half] * by[f][half] + sum;
      }
    if (!__any_sync(0xffffffffu, grew)) return;
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) out[f][j][e] *= by[f][e / 2];
  }
};

// Replaces the elements outside the window and those of keys past the end. `row` and `column` are those of a lane's first
// element; kAcross: the fragments' rows are keys and their columns are queries.
template <bool kAcross, int kFrags, int kColumns>
__device__ __forceinline__ void remove_outside(const Params& p, const Part& part, float (&s)[kFrags][kColumns][4],
                                               int row, int column, float by) {
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int y = row + f * 16 + half * 8;
      // The columns of this row that stay.
      int first = (kAcross ? part.first_row_of(p, y) : part.first_column_of(p, y)) - column;
      const int end = (kAcross ? part.end_row_of(p, y) : part.end_column_of(p, y)) - column;
      if (kAcross && y >= part.columns) first = kFar;
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (j * 8 + e < first || j * 8 + e >= end) s[f][j][half * 2 + e] = by;
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
