// What the definitions of pointwise ops have in common.
#pragma once
#include "autograd/autograd.h"
#include "cpu/pointwise.h"
#include "strata/ops.h"

namespace strata {

using G = const GradContext&;

// The gradient of a step function: zeros, also where g is infinite.
inline Tensor no_slope(const Tensor& g) { return autograd::zeros_for(*g); }

}  // namespace strata
