// Parameters of a complex pointwise kernel; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kComplexDims = kAxesMost, kComplexOperands = 3;

struct ComplexParams {
  struct View {
    uint64_t data;     // address of the first element; 0: a number
    double number[2];  // its parts
    int32_t type;      // a DType
  };
  uint32_t count;  // elements
  int32_t ndim;    // dimensions of the walk
  double members[kComplexOperands][2];
  View view[kComplexOperands + 1];                   // the output first
  FastDivisor size[kComplexDims];                    // starting with the fastest dimension
  int32_t step[kComplexDims][kComplexOperands + 1];  // in elements
};

}  // namespace strata::cuda
