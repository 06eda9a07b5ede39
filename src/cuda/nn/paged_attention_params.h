// Parameters and sizes of the kernels of paged attention; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/runtime/fault_params.h"

namespace strata::cuda::attention {

// Strides are in elements; features are dense.
struct PagedParams {
  uint64_t q, out;  // [sequences, queries, heads, features]
  int64_t q_steps[3], out_steps[3];
  uint64_t k, v;  // [pages, page_size, shared heads, features]
  int64_t k_steps[3], v_steps[3];
  uint64_t table, contexts;  // int32 [sequences, table_pages], [sequences]
  uint64_t sums, stats;      // of each part: float [.., value_width], float2; used if there are several
  FastDivisor page_size;
  int32_t sequences, queries, repeats;    // repeats: heads of queries that share one of keys
  int32_t shared_heads, rows, row_tiles;  // rows: queries * repeats, in tiles of kPagedRows
  int32_t width, value_width, pages, table_pages, most_keys;
  int32_t window;  // a query attends to so many keys before its own
  int32_t parts;   // into which the keys of a sequence are split
  float scale;
  FaultSink faults;
};

inline constexpr int kPagedRows = 16, kPagedCombineThreads = 128;

// For heads of up to kWidth features: warps of a block, each with its own tiles of keys. Memory: the queries, two stages of
// two tiles for each warp, and a pair of floats for each row and warp.
template <int kWidth> struct PagedSizes {
  static constexpr int kWarps = kWidth > 128 ? 2 : 4, kKeys = kWidth > 64 ? 16 : 32;
  static constexpr int kThreads = 32 * kWarps, kTileBytes = kKeys * 2 * kWidth;
  static constexpr int kStages = kPagedRows * 2 * kWidth, kStats = kStages + kWarps * 4 * kTileBytes;
  static constexpr int kShared = kStats + kWarps * kPagedRows * 8;
};

}  // namespace strata::cuda::attention
