// Matrix transposition: copies between tensors whose fastest dimensions differ.
//
// Bound by memory: a tile goes through shared memory, so that both sides are accessed along their rows.
#include <stdint.h>

#include "cuda/movement/transpose_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

// For any sizes and addresses. Rows of the tile are an odd number of words apart, so that a column touches every bank.
template <class E> __device__ __forceinline__ void transpose(const TransposeParams& p) {
  constexpr int kTile = transpose_tile(sizeof(E), false).rows, kDown = kThreads / kTile;
  __shared__ E tile[kTile][kTile + (sizeof(E) >= 4 ? 1 : 4 / int(sizeof(E)))];
  const int64_t r0 = int64_t(blockIdx.y) * kTile, c0 = int64_t(blockIdx.x) * kTile;
  const int along = int(threadIdx.x) % kTile, across = int(threadIdx.x) / kTile;
  for (int64_t b = blockIdx.z; b < p.batches; b += gridDim.z) {
    const E* x = reinterpret_cast<const E*>(p.x) + b * p.x_batch;
    E* y = reinterpret_cast<E*>(p.y) + b * p.y_batch;
#pragma unroll
    for (int i = across; i < kTile; i += kDown)
      if (r0 + i < p.rows && c0 + along < p.columns) tile[i][along] = x[(r0 + i) * p.x_row + c0 + along];
    __syncthreads();
#pragma unroll
    for (int i = across; i < kTile; i += kDown)
      if (c0 + i < p.columns && r0 + along < p.rows) y[(c0 + i) * p.y_column + r0 + along] = tile[along][i];
    __syncthreads();
  }
}

template <int bytes> struct WordOf { using type = uint32_t; };
template <> struct WordOf<8> { using type = uint64_t; };

// Element j of each of the rows in `in`, 16 bytes each, as one word.
template <int bytes> __device__ __forceinline__ auto column(const uint4* in, int j) {
  const auto word = [&](int row, int k) { return reinterpret_cast<const uint32_t*>(in + row)[k]; };
  if constexpr (bytes == 8) {
    return uint64_t(word(0, 2 * j)) | uint64_t(word(0, 2 * j + 1)) << 32;
  } else if constexpr (bytes == 4) {
    return word(0, j);
  } else if constexpr (bytes == 2) {
    return __byte_perm(word(0, j / 2), word(1, j / 2), j % 2 ? 0x7632 : 0x5410);
  } else {
    const uint32_t pick = uint32_t(j % 4) | uint32_t(4 + j % 4) << 4;
    return __byte_perm(__byte_perm(word(0, j / 4), word(1, j / 4), pick),
                       __byte_perm(word(2, j / 4), word(3, j / 4), pick), 0x5410);
  }
}

// 16-byte accesses on both sides. Eight threads read 128 bytes of a row. For narrow elements a thread reads as many
// rows as make a word, so that whole words are written to shared memory, already in the order of y. There the 16-byte
// pieces of a line are permuted by the number of the thread that wrote it: a warp touches every bank once, both when
// writing words and when reading pieces.
template <int bytes> __device__ __forceinline__ void transpose_vectors(const TransposeParams& p) {
  using Word = typename WordOf<bytes>::type;
  constexpr TransposeTile kTile = transpose_tile(bytes, true);
  constexpr int kItems = 16 / bytes, kPack = bytes < 4 ? 4 / bytes : 1;  // elements per access, rows per word
  constexpr int kWords = kTile.rows / kPack, kPiece = 16 / int(sizeof(Word)), kPieces = kWords / kPiece;
  __shared__ __align__(16) Word tile[kTile.columns][kWords];
  const int64_t r0 = int64_t(blockIdx.y) * kTile.rows, c0 = int64_t(blockIdx.x) * kTile.columns;
  const int eighth = int(threadIdx.x) % 8, group = int(threadIdx.x) / 8;
  for (int64_t b = blockIdx.z; b < p.batches; b += gridDim.z) {
    const char* x = reinterpret_cast<const char*>(p.x) + (b * p.x_batch + c0) * bytes + eighth * 16;
    char* y = reinterpret_cast<char*>(p.y) + (b * p.y_batch + r0) * bytes;
    constexpr int kTurns = kWords / (kThreads / 8);
    uint4 in[kTurns][kPack];
#pragma unroll
    for (int t = 0; t < kTurns; ++t)
#pragma unroll
      for (int q = 0; q < kPack; ++q) {
        const int64_t row = r0 + (group + t * (kThreads / 8)) * kPack + q;
        in[t][q] = make_uint4(0, 0, 0, 0);
        if (row < p.rows && c0 + eighth * kItems < p.columns)
          in[t][q] = *reinterpret_cast<const uint4*>(x + row * p.x_row * bytes);
      }
#pragma unroll
    for (int t = 0; t < kTurns; ++t) {
      const int word = group + t * (kThreads / 8), place = ((word / kPiece) ^ eighth) * kPiece + word % kPiece;
#pragma unroll
      for (int j = 0; j < kItems; ++j) tile[eighth * kItems + j][place] = column<bytes>(in[t], j);
    }
    __syncthreads();
    const int piece = int(threadIdx.x) % kPieces;
#pragma unroll
    for (int c = int(threadIdx.x) / kPieces; c < kTile.columns; c += kThreads / kPieces) {
      if (c0 + c >= p.columns || r0 + piece * kItems >= p.rows) continue;
      const uint4 out = *reinterpret_cast<const uint4*>(&tile[c][(piece ^ (c / kItems)) * kPiece]);
      *reinterpret_cast<uint4*>(y + ((c0 + c) * p.y_column + piece * kItems) * bytes) = out;
    }
    __syncthreads();
  }
}
}  // namespace

#define STRATA_TRANSPOSE(bytes, E)                                                                            \
  extern "C" __global__ void __launch_bounds__(256) transpose_##bytes(TransposeParams p) { transpose<E>(p); } \
  extern "C" __global__ void __launch_bounds__(256) transpose_##bytes##_vectors(TransposeParams p) {          \
    transpose_vectors<bytes>(p);                                                                              \
  }
STRATA_TRANSPOSE(1, uint8_t)
STRATA_TRANSPOSE(2, uint16_t)
STRATA_TRANSPOSE(4, uint32_t)
STRATA_TRANSPOSE(8, uint64_t)

}  // namespace strata::cuda
