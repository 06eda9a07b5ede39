// Convolutions by cuDNN, where it is installed.
#pragma once
#include "cuda/nn/convolution.h"

namespace strata::cuda {

// In the memory order of the result. Operands in another order are copied.
const char* plan_convolution_cudnn(const ConvCall& v, Plan& plan);
// In channels-last order, for which cuDNN's kernels for tensor cores are made: tensors in another order are copied, where
// our copies take less time than those of cuDNN's channels-first kernels.
const char* plan_convolution_cudnn_channels_last(const ConvCall& v, Plan& plan);
// Of float32, with factors rounded to TF32, where that is allowed (record/precision.h).
const char* plan_convolution_cudnn_tf32(const ConvCall& v, Plan& plan);
void run_convolution_cudnn(const ConvCall& v, const Call& c, const Plan& plan);

}  // namespace strata::cuda
