// relu(convolution + other) in one kernel.
#pragma once
#include "cuda/nn/convolution.h"

namespace strata::cuda {

struct ConvReluCall {
  ConvCall convolution;  // forward
  Tensor other;          // of the shape of the result, may be undefined
};

// Kernels of one element in channels-last order are products: by a kernel of strata.gemm.compile, on Hopper.
const char* plan_convolution_relu_compiled(const ConvReluCall& call, Plan& plan);
void run_convolution_relu_compiled(const ConvReluCall& call, const Call& c, const Plan& plan);

// By cuDNN, which compiles fused kernels at run time for 16-bit floats in channels-last order.
const char* plan_convolution_relu_cudnn(const ConvReluCall& call, Plan& plan);
void run_convolution_relu_cudnn(const ConvReluCall& call, const Call& c, const Plan& plan);

// By our own kernels for mma.sync (convolution_mma.cuh).
const char* plan_convolution_relu_mma(const ConvReluCall& call, Plan& plan);
void run_convolution_relu_mma(const ConvReluCall& call, const Call& c, const Plan& plan);

}  // namespace strata::cuda
