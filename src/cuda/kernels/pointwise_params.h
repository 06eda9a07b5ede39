// What the host tells a pointwise kernel; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/kernels/axes_params.h"
#include "cuda/kernels/fault_params.h"

namespace strata::cuda {

constexpr int kPointwiseDims = kAxesMost, kPointwiseOperands = 4;
enum Dense : int32_t { kDenseNot, kDenseMixed, kDenseSame };  // same: all are of the compute type

struct PointwiseParams {
  struct View {
    uint64_t data;  // address of the first element; 0: a number
    uint64_t number;
    int32_t type;  // a DType
  };
  uint32_t count;  // elements
  int32_t ndim;    // dimensions of the walk, the last one is the fastest
  int32_t dense;   // one of Dense: in all views elements follow each other in the order of the walk, and vectors are aligned
  uint64_t members[4];
  View view[kPointwiseOperands + 1];                     // the output first
  FastDivisor size[kPointwiseDims];                      // from the fastest dimension on
  int32_t step[kPointwiseDims][kPointwiseOperands + 1];  // in elements
  FaultSink faults;                                      // for integer divisors that are 0
};

}  // namespace strata::cuda
