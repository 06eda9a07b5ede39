// Parameters of product kernels with an epilogue of the user on Hopper; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/custom/gemm_kernel_params.h"
#include "cuda/linalg/gemm_hopper_params.h"

namespace strata::gemm {

struct HopperParams {
  cuda::hopper::TensorMap a, b, d, second;
  cuda::hopper::GemmArgs gemm;
  KernelParams user;
};

}  // namespace strata::gemm
