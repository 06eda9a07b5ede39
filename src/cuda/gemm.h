// Matrix products on a device.
#pragma once
#include "cuda/kernels/gemm_params.h"
#include "tensor/tensor.h"

namespace strata::cuda {

// Runs a plan: sizes, strides, alpha and beta are set; addresses and dtypes come from the tensors. `in` may be null.
void gemm(GemmParams p, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* in = nullptr);

}  // namespace strata::cuda
