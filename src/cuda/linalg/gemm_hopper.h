// Products of 16-bit floats on Hopper's tensor cores (gemm_hopper.cuh).
#pragma once
#include "cuda/linalg/gemm.h"

namespace strata::cuda {

// For the shapes that were measured to be faster than with cuBLASLt, on an H200 (bench/results/gemm.md).
const char* plan_gemm_hopper_ahead(const GemmCall& g, Plan& plan);
// For all that it can do.
const char* plan_gemm_hopper(const GemmCall& g, Plan& plan);
void run_gemm_hopper(const GemmCall& g, const Call& c, const Plan& plan);

}  // namespace strata::cuda
