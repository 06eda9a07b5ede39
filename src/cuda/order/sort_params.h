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
};

// A radix sort of `lines` contiguous lines of n elements, eight bits per pass.
constexpr int kRadixThreads = 512, kRadixDigits = 256, kRadixPassesMost = 8;
// Elements of a thread: those of a block fill 32 KiB of shared memory. Wide: of 8 bytes.
constexpr int kRadixItems = 16, kRadixItemsWide = 8;
struct RadixLine {
  uint32_t starts[kRadixPassesMost][kRadixDigits];  // counts of digits, then the position of each digit's first element
  uint32_t route[kRadixPassesMost];                 // what a pass does: the bits below
};
constexpr uint32_t kRadixRuns = 1, kRadixLast = 2;
constexpr int kRadixSourceShift = 2;  // two bits: reads the tensor, or buffer 1 or 2
// Words of look-back: a count and a tag that tells the pass it belongs to, so that memory is cleared only once.
constexpr int kRadixTagShift = 56;
constexpr uint64_t kRadixCountMask = (1ull << kRadixTagShift) - 1;
struct RadixParams {
  uint64_t x, values, indices;      // values and indices may be 0
  uint64_t payload;                 // uint32 numbers to sort along; 0: the elements' positions in their lines
  uint64_t keys[2], places[2];      // buffers; of the elements' size, and uint32
  uint64_t lines, states, tickets;  // RadixLine [lines]; uint64 [lines * tiles][256]; uint32 [passes]
  int32_t type, flip;
  int32_t passes, pass, shift;
  int32_t wide_indices;  // int64 instead of uint32
  int64_t n, tiles;      // elements and tiles of a line
  int64_t part, parts;   // elements that a block counts, and how many such parts a line has
  int64_t keep;          // elements of each line that are written
};

// A block sorts one line in shared memory.
struct LineSortParams {
  uint64_t x, values, indices;  // values and indices may be 0
  int32_t type, flip;
  int32_t wide_indices;  // int64, in the line; otherwise uint32, in all of x
  int64_t n, keep;
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
  int64_t chunks;   // of a line, each with k + 1 results of its own; more than one only if inner is 1
  uint64_t origin;  // int64, of the shape of x: what to write instead of the index in the line; 0: the index
};

struct GroupParams {       // groups of equal neighbours among n elements
  uint64_t x, begins;      // begins: bool, where groups begin; 0: compare the elements of x
  uint64_t order;          // int64: element i is number order[i] of `inverse`; 0: number i
  uint64_t first, groups;  // int64: [n], the beginnings of the groups; their number
  uint64_t inverse;        // int64: [n], the group of each element; or 0
  uint64_t words, ticket;  // for look-back
  int32_t type;
  int64_t n;
};

struct SearchParams {
  uint64_t rows, order, wanted, out;  // order may be 0
  int32_t out_type, right;
  int64_t count, n, per_row;  // per_row 0: one row for all
};

}  // namespace strata::cuda
