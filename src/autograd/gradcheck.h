// Gradients against finite differences, in float64.
#pragma once
#include "autograd/function.h"

namespace strata::autograd {

struct GradcheckOptions {
  double eps = 1e-6, atol = 1e-5, rtol = 1e-3;
  bool raise_exception = true;  // false: a mismatch is the result false
};

// Whether the gradients of fn match central differences, for every float64 input that requires a gradient. Inputs must be
// contiguous; their elements are moved by eps and put back.
STRATA_API bool gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions options = {});
// gradcheck of the gradients of fn, with respect to the inputs and the gradients that come in.
STRATA_API bool gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                              GradcheckOptions options = {});

}  // namespace strata::autograd

namespace strata {
using autograd::gradcheck, autograd::gradgradcheck;
}  // namespace strata
