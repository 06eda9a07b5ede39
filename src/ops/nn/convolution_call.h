// A call of `convolution` in the terms of the device kernels, for ops that contain one.
#pragma once
#include "cuda/nn/convolution.h"

namespace strata {

cuda::ConvCall convolution_call(const Call& c);

}  // namespace strata
