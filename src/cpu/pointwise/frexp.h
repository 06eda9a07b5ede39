// Mantissas and exponents of floats.
#pragma once
#include "tensor/tensor.h"

namespace strata::cpu {

// x = mantissa * 2^exponent; results are 0 and 0 for 0, and x and 0 for infinities and NaN. The exponent is int32.
void frexp(const TensorImpl& x, const Tensor& mantissa, const Tensor& exponent);

}  // namespace strata::cpu
