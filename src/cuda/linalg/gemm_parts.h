// Products on Hopper with results in float: TF32 (gemm_tf32.cu), and sums in parts (gemm_parts.cu).
#pragma once
#include "cuda/linalg/gemm.h"

namespace strata::cuda {

// float32 on tensor cores, if TF32 is allowed.
const char* plan_gemm_hopper_tf32(const GemmCall& g, Plan& plan);
void run_gemm_hopper_tf32(const GemmCall& g, const Call& c, const Plan& plan);

// 16-bit floats, and float32 if TF32 is allowed, in tiles that would not fill the GPU: their sums are divided.
const char* plan_gemm_hopper_parts(const GemmCall& g, Plan& plan);
void run_gemm_hopper_parts(const GemmCall& g, const Call& c, const Plan& plan);

}  // namespace strata::cuda
