// Parameters of the kernel that pads; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kPadAxes = 5, kPadItems = 4;  // axes at most; elements per thread

struct PadParams {
  uint64_t x, out;    // out is contiguous
  uint64_t value[2];  // the element of the border, in the first bytes
  uint32_t total;     // elements of out, below 2^31
  int32_t axes;
  FastDivisor size[kPadAxes];                  // of out, the fastest first
  int32_t before[kPadAxes], length[kPadAxes];  // the input begins at `before` and has this length
  int64_t stride[kPadAxes];                    // of the input
};

}  // namespace strata::cuda
