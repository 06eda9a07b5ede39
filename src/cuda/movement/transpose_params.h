// Parameters of a transposition; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

// y[b][c][r] = x[b][r][c]. Strides in elements; x's columns and y's rows have stride 1.
struct TransposeParams {
  uint64_t x, y;
  int64_t rows, columns, batches;
  int64_t x_row, y_column, x_batch, y_batch;
};

// Tiles for elements of `bytes` bytes. With 16-byte accesses: 128 bytes of a row of x by 256 or 512 of a row of y.
struct TransposeTile {
  int rows, columns;
};
#ifdef __CUDACC__
__host__ __device__
#endif
  constexpr TransposeTile
  transpose_tile(int bytes, bool vectors) {
  if (!vectors) return bytes == 8 ? TransposeTile{32, 32} : TransposeTile{64, 64};
  return {(bytes < 4 ? 256 : 512) / bytes, 128 / bytes};
}

}  // namespace strata::cuda
