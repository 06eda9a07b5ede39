// Parameters and tile shapes of the Hopper product kernels; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda::hopper {

// The driver's CUtensorMap, opaque here: TMA reads it through its address, which must stay in kernel parameter space.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

// Formats of factors that are dense along k (wgmma_along_k.cuh).
enum class KFormat { S8, E4M3, E4M3TimesE5M2, E5M2TimesE4M3, E5M2, TF32 };

enum : int32_t { kAddNothing, kAddRow, kAddMatrix };

// d = alpha * a b + beta * in, for a batch of two dimensions, outer first. Strides are in elements.
struct GemmArgs {
  int32_t m, n, k;
  int32_t batches, inner;      // all of them, and those of the inner dimension
  int32_t a_moves, b_moves;    // bit 0: the factor has the inner batch dimension; bit 1: the outer one
  int32_t addend, tma_stores;  // tma_stores: rows of d are aligned to 16 bytes
  float alpha, beta;
  uint64_t in, d;
  int64_t in_ld, d_ld, in_b[2], d_b[2];
  uint64_t offsets;  // of grouped products: int32, where each group ends
  int32_t groups;
};

// A block computes m x n tiles of d and loads `load_m` rows of a for each. The `cluster` blocks of a cluster are
// neighbours along m and share a tile of b. ping_pong: the two consumer warpgroups compute alternate tiles; otherwise
// they share one.
struct TileShape {
  int m, n, load_m, stages, cluster, blocks_per_sm;
  bool ping_pong;
};
inline constexpr TileShape kHuge = {128, 256, 128, 4, 2, 1, false};
inline constexpr TileShape kWide = {128, 192, 128, 4, 2, 1, true};
inline constexpr TileShape kLarge = {128, 128, 128, 6, 2, 1, true};
inline constexpr TileShape kMedium = {64, 128, 64, 8, 1, 1, true};
inline constexpr TileShape kSmall = {64, 64, 64, 4, 1, 2, true};
inline constexpr TileShape kFlat = {64, 32, 16, 16, 1, 1, true};  // for up to 16 rows

inline constexpr int kTileK = 64;  // 128 bytes, the widest swizzle that TMA writes and wgmma reads
inline constexpr int kThreads = 384, kGroupM = 8;

constexpr int rounded_up(int x, int to) { return (x + to - 1) / to * to; }

// Shared memory of a block, and the boxes that TMA moves. Bytes, unless a name says otherwise.
struct TileMemory {
  int a, b, slice_b, store_columns, store, at_b, at_store, at_row, at_barriers, total;

  constexpr TileMemory(TileShape s, bool b_along_k) {
    constexpr int kRowBytes = 2 * kTileK, kGroups = 2, kBuffers = 2;
    a = s.load_m * kRowBytes;
    b = (b_along_k ? s.n : rounded_up(s.n, 64)) * kRowBytes;
    slice_b = (b_along_k ? s.n : kTileK) / s.cluster;  // rows of b, as stored, that one block fetches for its cluster
    store_columns = s.n < 64 ? s.n : 64;               // d leaves in pieces of 64 rows
    store = 64 * store_columns * 2;
    at_b = s.stages * a;
    at_store = at_b + s.stages * b;
    at_row = at_store + kGroups * kBuffers * store;
    at_barriers = at_row + kGroups * s.n * 4;
    total = at_barriers + 2 * s.stages * 8;
  }
};

}  // namespace strata::cuda::hopper
