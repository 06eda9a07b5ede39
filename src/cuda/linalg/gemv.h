// Matrix-vector products, bound by memory bandwidth.
#pragma once
#include "cuda/linalg/gemm.h"

namespace strata::cuda {

const char* plan_gemv(const GemmCall& g, Plan& plan);
void run_gemv(const GemmCall& g, const Call& c, const Plan& plan);

}  // namespace strata::cuda
