// Parameters of the kernel that realigns rows; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kRealignThreads = 256, kRealignBatch = 4;

// A batch of matrices of 16-bit elements, each of fewer than 2^31 vectors of eight. The copy is dense but for its row
// stride. Strides are in elements.
struct RealignJob {
  uint64_t source, target;
  int64_t rows, columns, source_ld, target_ld;
  int64_t inner, outer, source_b[2];  // the batch, and its strides, outer first
};

}  // namespace strata::cuda
