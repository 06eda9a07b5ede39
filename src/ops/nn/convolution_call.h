// A call of `convolution` in the terms of the device kernels, for ops that contain one.
#pragma once
#include "cuda/nn/convolution.h"

namespace strata {

cuda::ConvCall convolution_call(const Call& c);
ConvShape convolution_shape(const Args& args);  // its geometry

}  // namespace strata
