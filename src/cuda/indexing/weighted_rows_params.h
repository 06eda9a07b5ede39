// Parameters of the kernels of weighted_rows.cu; shared with device code, so plain types only.
#pragma once
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

// indices and weights are [bags][each], the table [rows][n], sums and gradients [bags][n]; all contiguous.
struct WeightedRowsParams {
  uint64_t table, indices, weights, sums;
  int64_t bags, each, rows, n;
  FaultSink faults;
};

}  // namespace strata::cuda
