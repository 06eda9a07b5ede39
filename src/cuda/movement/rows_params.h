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

// Contiguous tensors [rows][width] side by side in rows of `pitch`; all in units.
constexpr int kJoinMost = 8;
struct JoinParams {
  struct Source {
    uint64_t from;
    uint32_t total;  // units, below 2^31
    FastDivisor width;
    int64_t offset;  // in a row of the result
  };
  uint64_t to;
  int64_t pitch;
  Source source[kJoinMost];  // one per y of the grid
};

}  // namespace strata::cuda
