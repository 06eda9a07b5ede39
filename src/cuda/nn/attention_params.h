// Parameters and tile sizes of the attention kernels; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/runtime/fault_params.h"

namespace strata::cuda::attention {

inline constexpr int kBatchDims = 3;

// A matrix per entry of the batch. Strides are in elements; rows are dense.
struct Matrices {
  uint64_t address;
  int64_t row, batch[kBatchDims];
};

// Added to the scores, or a bool: false removes a score. Address 0: no mask.
struct Mask {
  uint64_t address;
  int64_t row, column, batch[kBatchDims];
  int32_t type;
};

struct Params {
  Matrices q, k, v, out;                  // out: the result, which the gradient reads
  Matrices grad, grad_q, grad_k, grad_v;  // of the gradient only
  Mask mask;
  uint64_t log_sums;                          // float [batches, rows]
  uint64_t pairs;                             // of the gradient: float2 [batches, pair_rows], see compute_pairs
  FastDivisor batch[kBatchDims];              // sizes of the batch dimensions, outer first
  int32_t batches;                            // their product
  int32_t rows, columns, width, value_width;  // queries, keys, features of queries and keys, features of values
  int32_t pair_rows;                          // pairs of an entry of the batch: see Part::pairs
  int32_t causal;                             // row i attends to the columns up to i
  float scale;
  // Of the mma.sync kernels. Row i attends to the columns from i + diagonal - left to i + diagonal + right, where the
  // diagonal is 0 or, with from_end, columns - rows.
  int32_t left, right, from_end;
  // The rows of a matrix may be those of several sequences; `rows` and `columns` are then those of the longest one.
  int32_t sequences, total_rows, total_columns;
  uint64_t row_starts, column_starts;  // int32 [sequences + 1]; 0: there is one sequence
  uint64_t draws;                      // of dropout: the seed and the first Philox block; 0: nothing is dropped
  uint32_t last_dropped;               // weights whose draw is above are kept
  float kept_scale;
};
inline constexpr int kFar = 1 << 29;  // `left` and `right` without a limit; more than any size

// Checks the starts of sequences: see attention_sequences.cu.
struct SequenceParams {
  uint64_t starts;
  int32_t sequences, total, longest;
  FaultSink faults;
};

// Sizes of the mma.sync kernels for heads of up to kWidth features.
template <int kWidth> struct Sizes;
template <> struct Sizes<64> {
  static constexpr int kForwardFrags = 2, kForwardKeys = 64;            // 16-row fragments of a warp; keys of a tile
  static constexpr int kQueryFrags = 2, kQueryKeys = 64;                // gradient of queries
  static constexpr int kKeyFrags = 2, kKeyWarps = 4, kKeyQueries = 32;  // gradients of keys and values
};
template <> struct Sizes<128> {
  static constexpr int kForwardFrags = 2, kForwardKeys = 32;
  static constexpr int kQueryFrags = 2, kQueryKeys = 32;
  static constexpr int kKeyFrags = 1, kKeyWarps = 8, kKeyQueries = 32;
};
template <> struct Sizes<256> {
  static constexpr int kForwardFrags = 1, kForwardKeys = 32;
  static constexpr int kQueryFrags = 1, kQueryKeys = 16;
  static constexpr int kKeyFrags = 1, kKeyWarps = 4, kKeyQueries = 16;
};
inline constexpr int kWarps = 4;  // of a block of the forward kernel and of the gradient of queries

// A launch: the rows (or keys) of a block, its threads and bytes of shared memory.
struct Shape {
  int rows, threads, shared;
};
// Both kernels keep their own rows of `kept` matrices, and two stages of two matrices pass by.
constexpr Shape shape_of(int width, int frags, int warps, int kept, int passing, int row_bytes = 0) {
  const int rows = 16 * frags * warps;
  return {rows, 32 * warps, 2 * width * (kept * rows + 4 * passing) + 2 * passing * row_bytes};
}
template <int kWidth>
inline constexpr Shape kForwardShape = shape_of(kWidth, Sizes<kWidth>::kForwardFrags, kWarps, 1,
                                                Sizes<kWidth>::kForwardKeys);
template <int kWidth>
inline constexpr Shape kQueryShape = shape_of(kWidth, Sizes<kWidth>::kQueryFrags, kWarps, 2, Sizes<kWidth>::kQueryKeys);
template <int kWidth>
inline constexpr Shape kKeyShape =  // with a pair of floats for each query
  shape_of(kWidth, Sizes<kWidth>::kKeyFrags, Sizes<kWidth>::kKeyWarps, 2, Sizes<kWidth>::kKeyQueries, 8);
inline constexpr int kPairThreads = 256, kPairLanes = 8, kPairRows = 128;

// Sizes of a Hopper kernel: warpgroups that multiply, each with 64 rows; matrices whose rows they keep; rows of the two
// matrices that pass by, and their stages; bytes that pass by with each row.
struct HopperShape {
  int width, groups, kept, passing, stages, row_bytes;
  int rows, threads, kept_bytes, tile_bytes;  // kept_bytes: of a warpgroup's rows of one matrix
  int at_stages, at_rows, at_out, at_barriers, shared;

  constexpr HopperShape(int w, int g, int k, int p, int s, int r)
      : width(w), groups(g), kept(k), passing(p), stages(s), row_bytes(r) {
    rows = 64 * groups;
    threads = 128 * (groups + 1);
    kept_bytes = 64 * width * 2;
    tile_bytes = passing * width * 2;
    at_stages = kept * groups * kept_bytes;
    at_rows = at_stages + 2 * stages * tile_bytes;
    at_out = at_rows + stages * passing * row_bytes;
    at_barriers = at_out + groups * kept_bytes;  // results leave through memory of their own
    shared = at_barriers + 8 * (2 + 4 * stages);
  }
};
// Measured on an H200. Three warpgroups are faster than two, but waste more on the diagonal of causal attention.
inline constexpr HopperShape kHopperForward64 = {64, 2, 1, 128, 3, 0}, kHopperForwardTall64 = {64, 3, 1, 128, 2, 0};
inline constexpr HopperShape kHopperForward128 = {128, 2, 1, 128, 2, 0};
inline constexpr HopperShape kHopperQuery64 = {64, 2, 2, 128, 2, 0}, kHopperQuery128 = {128, 2, 2, 128, 2, 0};
inline constexpr HopperShape kHopperKey64 = {64, 2, 2, 128, 2, 8}, kHopperKey128 = {128, 2, 2, 64, 3, 8};

}  // namespace strata::cuda::attention
