// Parameters of the kernels of exact sums; shared with device code, so plain types only.
#pragma once
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {

constexpr int kExactRange = 14;                                            // exponents of a range
constexpr int kExactRanges = (254 + kExactRange - 1) / kExactRange;        // of finite floats
constexpr int kExactWords = kExactRanges + 1;                              // of an element of the table
constexpr int64_t kExactMost = int64_t{1} << (62 - 24 - kExactRange + 1);  // floats that a word can add
constexpr int kExactItems = 32;                                            // values of a thread that finds ranges
constexpr int kExactAdded = 8;                                             // values of a thread that adds them
constexpr int kExactLine = 4096;             // elements of a line of the table in shared memory
constexpr int64_t kExactLineMost = 1 << 20;  // values of such a line

struct ExactParams {
  AlongParams along;  // the table is contiguous
  uint64_t words;     // 64 bits each, [kExactWords][elements of the table]
  uint64_t used;      // uint32, a bit per range; 0 at first
  int64_t values;     // elements of the block
  int32_t vectors;    // it can be read in vectors (load_common)
};

}  // namespace strata::cuda
