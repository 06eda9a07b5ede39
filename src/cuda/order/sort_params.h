// Parameters of the kernels of sorting and searching; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kSortBlock = 2048;  // elements that one block sorts in shared memory

// Lines of n elements with stride `inner`: line l begins at l / inner * n * inner + l % inner.
struct SortParams {
  uint64_t x, values, indices;  // values and indices may be 0
  int32_t type, flip;           // flip: descending
  int32_t padded;               // n rounded up to a power of two, at most kSortBlock
  int32_t log_padded;
  int64_t lines, n, inner;
  int64_t keep;  // elements of each line that are written
  // for the radix sort: keys of elements numbered line by line, and the numbers in sorted order
  uint64_t keys, places, sorted;
  FastDivisor length;  // n
};

// One pass of a radix sort by eight bits: of the keys, or of the lines that the elements belong to.
struct RadixParams {
  uint64_t keys, places, keys_out, places_out;  // places 0: elements are in their original order
  uint64_t counts;                              // [256][tiles], int32
  int64_t count, tiles;
  int32_t shift, by_line;
  FastDivisor length;
};

struct PickParams {                    // one element of each sorted line
  uint64_t x, order, values, indices;  // order: [lines][n] indices
  int32_t type, what;                  // what: a Pick
  int64_t lines, n, inner, k;
};

struct SelectParams {  // the first k + 1 elements of each line, or only the k-th
  uint64_t x, values, indices;
  int32_t type, flip;
  int32_t one, what;  // one: only the k-th; what: a Pick; medians compute k themselves
  int32_t padded;     // k + 1 rounded up to a power of two, at most kSortBlock
  int64_t n, inner, k;
};

struct SearchParams {
  uint64_t rows, order, wanted, out;  // order may be 0
  int32_t out_type, right;
  int64_t count, n, per_row;  // per_row 0: one row for all
};

}  // namespace strata::cuda
