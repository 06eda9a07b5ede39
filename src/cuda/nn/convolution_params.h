// What the host tells a convolution kernel; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kConvDepth = 16;  // of the product, at a time

// In the terms of cpu/nn/convolution.h: the window moves over `big` [n, c, in…], `small` [n, o, out…] has an element per window, weight is
// [o, c / groups, kernel…]. Always three spatial dimensions; unused ones are the first and of size 1.
struct ConvParams {
  uint64_t big, weight, small, bias;  // bias may be 0; one number per channel of what is written
  int32_t big_type, weight_type, small_type, bias_type;
  int64_t big_stride[5], weight_stride[5], small_stride[5];  // in elements; the weight's may be negative
  int64_t weight_group;                                      // from one group's weights to the next
  int32_t n, c, o;                                           // channels of one group
  int32_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
  FastDivisor in_div[3], kernel_div[3], out_div[3], stride_div[3];
  int32_t quads;     // four windows after each other are 16 bytes of small: forward
  int32_t depth;     // of the product that one block computes: the weight's is cut into parts
  uint64_t partial;  // where parts go, [part, o, c, kernel…] of the compute type; 0: none
  int64_t partial_size;
};

}  // namespace strata::cuda
