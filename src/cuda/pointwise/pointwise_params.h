// Parameters of a pointwise kernel; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

constexpr int kPointwiseDims = kAxesMost, kPointwiseOperands = 4;

struct PointwiseParams {
  struct View {
    uint64_t data;  // address of the first element; 0: a number
    uint64_t number;
    int32_t type, log_size;  // a DType, and log2 of its size in bytes
  };
  uint32_t count;  // elements
  int32_t ndim;    // dimensions of the walk, the last one is the fastest
  int32_t dense;   // all views are contiguous in the order of the walk, and aligned for vectors
  int32_t rows;    // not dense, but their fastest dimension is contiguous and consists of aligned vectors
  // If dense: the distance between two threads' elements, and between the 16-byte parts of a vector, in bytes. If all
  // views have the compute type, the parts are a block's width apart: a warp then accesses one contiguous piece, and no
  // store leaves a gap that the cache would have to read.
  uint32_t each, gap;
  uint64_t members[4];
  View view[kPointwiseOperands + 1];                     // the output first
  FastDivisor eights;                                    // rows: the fastest dimension in vectors of eight
  FastDivisor size[kPointwiseDims];                      // starting with the fastest dimension
  int32_t step[kPointwiseDims][kPointwiseOperands + 1];  // in elements
  FaultSink faults;                                      // for integer divisors that are 0
};

}  // namespace strata::cuda
