// Products by cuBLASLt, where it is installed.
#pragma once
#include "cuda/linalg/gemm.h"

namespace strata::cuda {

const char* plan_gemm_cublaslt(const GemmCall& g, Plan& plan);
// Of float32, with factors rounded to TF32, where that is allowed (record/precision.h).
const char* plan_gemm_cublaslt_tf32(const GemmCall& g, Plan& plan);
void run_gemm_cublaslt(const GemmCall& g, const Call& c, const Plan& plan);

}  // namespace strata::cuda
