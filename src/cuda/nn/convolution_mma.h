// Convolutions of 16-bit floats on tensor cores from Ampere on (convolution_mma.cuh).
#pragma once
#include "cuda/nn/convolution.h"

namespace strata::cuda {

const char* plan_convolution_mma(const ConvCall& v, Plan& plan);
void run_convolution_mma(const ConvCall& v, const Call& c, const Plan& plan);

}  // namespace strata::cuda
