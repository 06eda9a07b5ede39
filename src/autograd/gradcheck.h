// Compares gradients with finite differences, in float64.
#pragma once
#include "autograd/function.h"

namespace strata::autograd {

struct GradcheckOptions {
  double eps = 1e-6, atol = 1e-5, rtol = 1e-3;
  bool raise_exception = true;  // false: return false on a mismatch
};

// Whether the gradients of fn match central differences, for every float64 or complex128 input that requires a gradient. Inputs must
// be contiguous; their elements are changed by eps and restored.
STRATA_API bool gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions options = {});
// gradcheck of the gradients of fn, with respect to the inputs and the incoming gradients.
STRATA_API bool gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                              GradcheckOptions options = {});

}  // namespace strata::autograd

namespace strata {
using autograd::gradcheck, autograd::gradgradcheck;
}  // namespace strata
