// What the host tells the kernels of sorting and searching; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kSortBlock = 2048;  // elements that one block sorts in shared memory

// Lines of n elements, `inner` apart: line l begins at l / inner * n * inner + l % inner.
struct SortParams {
  uint64_t x, values, indices;  // values and indices may be 0
  int32_t type, flip;           // flip: descending
  int32_t padded;               // n rounded up to a power of two, at most kSortBlock
  int32_t log_padded;
  int64_t lines, n, inner;
  int64_t keep;                   // elements of each line that are written
  uint64_t keys, places, sorted;  // of the radix sort: keys of elements numbered line by line, and the numbers in order
  FastDivisor length;             // n
};

// One pass of a radix sort by eight bits: of the keys, or of the lines that the elements belong to.
struct RadixParams {
  uint64_t keys, places, keys_out, places_out;  // places 0: elements stand in their order
  uint64_t counts;                              // [256][tiles], int32
  int64_t count, tiles;
  int32_t shift, by_line;
  FastDivisor length;
};

struct PickParams {                    // one element of each sorted line
  uint64_t x, order, values, indices;  // order: [lines][n] places
  int32_t type, what;                  // what: a Pick
  int64_t lines, n, inner, k;
};

struct SelectParams {  // the first k + 1 elements of each line, or the k-th alone
  uint64_t x, values, indices;
  int32_t type, flip;
  int32_t one, what;  // one: the k-th alone; what: a Pick, whose medians find k themselves
  int32_t padded;     // k + 1 rounded up to a power of two, at most kSortBlock
  int64_t n, inner, k;
};

struct SearchParams {
  uint64_t rows, order, wanted, out;  // order may be 0
  int32_t out_type, right;
  int64_t count, n, per_row;  // per_row 0: one row for all
};

}  // namespace strata::cuda
