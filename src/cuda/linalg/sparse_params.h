// Parameters of the kernels of sparse.cu; shared with device code, so plain types only.
#pragma once
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

// A sparse matrix [rows][table_rows] in compressed rows, and dense ones; all contiguous.
struct CompressedProductParams {
  uint64_t starts, columns, values;  // int64 [rows + 1], int64 [count], [count]
  uint64_t table, out;               // [table_rows][n], [rows][n]
  int64_t rows, count, table_rows, n;
  FaultSink faults;
};

// out[k] is the product of row a_rows[k] of a and row b_rows[k] of b.
struct RowProductsParams {
  uint64_t a, b;  // [a_count][n], [b_count][n]
  uint64_t a_rows, b_rows, out;
  int64_t a_count, b_count, count, n;
  FaultSink faults;
};

}  // namespace strata::cuda
