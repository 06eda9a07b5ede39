// Parameters of the kernels that read slices of a table; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

constexpr int kTakeItems = 4;  // units per thread

// block[outer][i][inner] = table[outer * outer_stride + index * stride + inner], in units of one size. The index is that
// of i, or of the element of the block.
struct TakeParams {
  uint64_t table, block, index;
  int32_t index_type;
  int32_t front;   // negative indices are out of range
  uint32_t total;  // units of the block, below 2^31
  uint32_t slabs;  // the parts of a slice, of a block each, that are processed one after the other; 0: in order
  FastDivisor by_inner, by_n, by_slabs;
  int64_t size, stride, outer_stride;
  FaultSink faults;
};

}  // namespace strata::cuda
