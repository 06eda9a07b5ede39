// What the host tells a transposition; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

// y[b][c][r] = x[b][r][c]. Strides in elements; x's columns and y's rows have stride 1.
struct TransposeParams {
  uint64_t x, y;
  int64_t rows, columns, batches;
  int64_t x_row, y_column, x_batch, y_batch;
};

}  // namespace strata::cuda
