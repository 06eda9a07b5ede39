// Parameters of the kernels of max_pool2d; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

// Windows move over big [n, c, in…]; small [n, c, out…] has an element per window. codes has the layout of small; each
// byte is a position within the window.
struct MaxPoolParams {
  uint64_t big, small, codes;  // codes may be 0
  int32_t big_type, small_type;
  int64_t big_stride[4], small_stride[4], code_stride[4];  // in elements
  int32_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
  FastDivisor eights;  // max_pool_last.cu: channels / 8
  FastDivisor channels, in_div[2], out_div[2], stride_div[2];
  FastDivisor cells[2];  // if windows do not overlap: pieces of big, `stride` large, that hold one window each
  int32_t pairs;         // cells are two elements wide (eight bytes), and none extends beyond the sides
  int64_t count;         // threads: output elements, or cells
};

}  // namespace strata::cuda
