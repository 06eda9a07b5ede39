// Parameters of the pooling kernels; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

// Windows of up to three spatial dimensions, right-aligned, over planes of one image and channel each.
struct PoolParams {
  uint64_t x, y, index, samples;  // index: of the maxima, or 0; samples: doubles, of fractional pooling, or 0
  int32_t x_type, y_type;
  int32_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  FastDivisor size[3];  // sizes that the threads iterate over: outputs, or inputs in the gradient
  int32_t adaptive, include_pad;
  int32_t sample[3], dims;  // index of a plane's sample for each dimension
  int64_t divisor;          // 0: the number of inputs
  uint32_t count;           // threads of the launch, below 2^31
  int64_t first;            // its first plane
};

// Planes of `in` values, with `out` indices each.
struct PlaneParams {
  uint64_t values, index, x;  // values: one for each index
  uint64_t failed;            // where an invalid index is reported; 0: no check
  int32_t values_type, x_type, add;
  int64_t planes, in, out;
};

}  // namespace strata::cuda
