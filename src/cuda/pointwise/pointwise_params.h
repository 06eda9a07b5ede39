// What the host tells a pointwise kernel; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

constexpr int kPointwiseDims = kAxesMost, kPointwiseOperands = 4;

struct PointwiseParams {
  struct View {
    uint64_t data;  // address of the first element; 0: a number
    uint64_t number;
    int32_t type, log_size;  // a DType, and of how many bytes, as a power of two
  };
  uint32_t count;  // elements
  int32_t ndim;    // dimensions of the walk, the last one is the fastest
  int32_t dense;   // in all views elements follow each other in the order of the walk, and vectors of them are aligned
  // Then: from a thread's elements to the next one's, and from one part of 16 bytes of a vector to the next, in bytes. Where all is
  // of the compute type the parts are a block's width apart: a warp's access is one piece of memory, and no store leaves
  // a gap whose bytes the cache would have to read.
  uint32_t each, gap;
  uint64_t members[4];
  View view[kPointwiseOperands + 1];                     // the output first
  FastDivisor size[kPointwiseDims];                      // from the fastest dimension on
  int32_t step[kPointwiseDims][kPointwiseOperands + 1];  // in elements
  FaultSink faults;                                      // for integer divisors that are 0
};

}  // namespace strata::cuda
