// Parameters of the kernels of indexing; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

// A tensor whose adjacent dimensions are indexed by tensors of one shape, and a contiguous block [outer][n][inner].
// Offsets and counts are in units: the largest size that can be moved at once.
struct RowsParams {
  struct Index {
    uint64_t data;  // n elements
    int64_t size, stride;
    int64_t weight;  // factor of this index in the row number
  };
  uint64_t table, block;
  uint64_t winners;  // int32, by row number: the last index element that writes to it; 0: see slots
  uint64_t slots;    // the same as a hash table: uint64, all ones at first; 0: all index elements write
  int32_t log_slots;
  int32_t log_unit, indices, index_type;
  int32_t type;    // of elements, if they are added
  int32_t single;  // the block is one unit for all
  Index index[kAxesMost];
  AxesParams outer, inner;  // of the table
  int64_t n, total;         // index elements; units of the block
  FastDivisor by_inner, by_n;
  int32_t fast;   // use the divisors: total < 2^31
  int32_t front;  // negative indices are out of range
  uint64_t keys;  // row numbers, uint32
  FaultSink faults;
};

// Values sorted by row, and reduced into rows: table [outer][rows][inner] and values [outer][n][inner] are contiguous.
struct CombineParams {
  uint64_t table, values, keys;  // keys: uint32, [n]
  uint64_t places;               // uint32 or int64, [n]; 0: the values are sorted
  uint64_t heads, tails;         // partial results that cross chunks, [chunks][outer * inner]
  int32_t table_type, values_type;
  int32_t wide_places;
  int32_t single;  // one value for all
  int32_t mean;    // divide sums by their counts
  int64_t skip;    // a row that is not changed; negative: none
  int64_t n, rows, outer, inner;
  int64_t chunk, chunks;  // elements of a chunk: kCombineChunk, or kCombineTile for a block
};
constexpr int kCombineChunk = 32, kCombineTile = 2048;

// Gather and scatter along one dimension. The axes are those of the index.
struct AlongParams {
  uint64_t table, block, index;  // block: the values read or written along with the index
  uint64_t winners, keys;
  int32_t type, index_type, single, how;  // how: a Scatter
  AxesParams axes;  // strides of the table, 0 along the dimension. For scatter by lines: without it
  int64_t index_stride[kAxesMost], block_stride[kAxesMost];  // for scatter by lines
  int64_t table_count;                                       // elements of the table
  int64_t size, stride;                                      // of the table along the dimension
  int64_t length, index_step, block_step;                    // for scatter by lines: along the dimension
  FaultSink faults;
};

struct NonzeroParams {
  uint64_t x, out;         // out: the total, or positions, or elements
  uint64_t source;         // elements to copy, of 1 << log_unit bytes
  uint64_t words, ticket;  // for look-back
  int32_t type, dims, log_unit;
  int32_t bytes;  // x has elements of one byte and is aligned to 16
  int64_t count;
  FastDivisor size[kAxesMost];  // the fastest first
};

struct TriangleParams {
  uint64_t x, out;
  int32_t type, lower;
  int64_t count, diagonal;
  FastDivisor columns, rows;
  int64_t wide_columns, wide_rows;  // used if count is 2^31 or more
};

}  // namespace strata::cuda
