// Matrix products on a device, with two planned kernels.
#pragma once
#include "cuda/linalg/gemm_params.h"
#include "record/kernel.h"

namespace strata::cuda {

// c = alpha * a b + beta * in. Sizes, strides, alpha and beta are set; addresses and dtypes come from the tensors.
struct GemmCall {
  GemmParams params;
  Tensor a, b, c, in;  // in may be undefined
};

// A block for each tile of the result.
const char* plan_gemm_tiles(const GemmCall& g, Plan& plan);
// For few tiles and long sums: the sums are split into parts, which a second launch adds.
const char* plan_gemm_parts(const GemmCall& g, Plan& plan);
void run_gemm(const GemmCall& g, const Call& c, const Plan& plan);

}  // namespace strata::cuda
