// The gradient of vector norms, for ops that compute them.
#pragma once
#include "tensor/tensor.h"
#include "tensor/values.h"

namespace strata {

// g times the slopes of the p-norm of x over dims: norm and g have these dimensions, with size 1.
Tensor vector_norm_slopes(const Tensor& x, const Tensor& norm, const Tensor& g, double p, IntList dims);

}  // namespace strata
