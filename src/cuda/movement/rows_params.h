// Parameters of the kernel that copies rows; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kRowAxes = 4, kRowItems = 4;  // axes above a row at most; units per thread

// Rows of `by_row` units, at the same multi-index of both; strides are in units.
struct CopyRowsParams {
  uint64_t to, from;
  uint32_t total;  // units, below 2^31
  int32_t axes;
  FastDivisor by_row, size[kRowAxes];  // the fastest first
  int64_t to_stride[kRowAxes], from_stride[kRowAxes];
};

}  // namespace strata::cuda
