// Convolutions on a device, as implicit matrix products.
#pragma once
#include "record/convolution.h"
#include "record/kernel.h"

namespace strata::cuda {

struct ConvCall {
  ConvShape shape;
  ConvMode mode;
  Tensor big, weight, small, bias;  // bias may be undefined
};

// Float32 tensors whose offsets fit 32 bits.
const char* plan_convolution_floats(const ConvCall& v, Plan& plan);
// Any dtype.
const char* plan_convolution_any(const ConvCall& v, Plan& plan);
void run_convolution(const ConvCall& v, const Call& c, const Plan& plan);

}  // namespace strata::cuda
