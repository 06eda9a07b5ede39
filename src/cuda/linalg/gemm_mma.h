// Products of 16-bit floats on tensor cores from Ampere on (gemm_mma.cuh).
#pragma once
#include "cuda/linalg/gemm.h"

namespace strata::cuda {

const char* plan_gemm_mma(const GemmCall& g, Plan& plan);
void run_gemm_mma(const GemmCall& g, const Call& c, const Plan& plan);

// For few results and long sums: parts of the sums go to separate blocks, and a second launch adds them (gemm_split.cu).
const char* plan_gemm_mma_parts(const GemmCall& g, Plan& plan);
void run_gemm_mma_parts(const GemmCall& g, const Call& c, const Plan& plan);

}  // namespace strata::cuda
