// Elements computed from their index, and frexp, on a device.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

// start + i * step; evenly spaced from start to end, or base to those powers (base 0: no power).
void arange(const TensorImpl& out, Scalar start, Scalar step);
void linspace(const TensorImpl& out, double start, double end, double base = 0);
void frexp(const TensorImpl& x, const TensorImpl& mantissa, const TensorImpl& exponent);

}  // namespace strata::cuda
