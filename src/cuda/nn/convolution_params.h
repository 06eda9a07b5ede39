// Parameters of a convolution kernel; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kConvDepth = 16;  // depth of the product per step

// As in cpu/nn/convolution.h: the window moves over `big` [n, c, in…], `small` [n, o, out…] has an element per window,
// weight is [o, c / groups, kernel…]. Always three spatial dimensions; unused ones come first and have size 1.
struct ConvParams {
  uint64_t big, weight, small, bias;  // bias may be 0; one number per output channel
  int32_t big_type, weight_type, small_type, bias_type;
  int64_t big_stride[5], weight_stride[5], small_stride[5];  // in elements; the weight's may be negative
  int64_t weight_group;                                      // distance between the weights of two groups
  int32_t n, c, o;                                           // channels of one group
  int32_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
  FastDivisor in_div[3], kernel_div[3], out_div[3], stride_div[3];
  int32_t quads;     // forward: four consecutive windows are 16 contiguous bytes of small
  int32_t depth;     // depth computed by one block: the product of the weight gradient is split into parts
  uint64_t partial;  // destination of the parts, [part, o, c, kernel…] of the compute type; 0: none
  int64_t partial_size;
};

}  // namespace strata::cuda
