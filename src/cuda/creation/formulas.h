// Elements computed from their index, and frexp, on a device.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// start + i * step; evenly spaced from start to end, or base to those powers (base 0: no power).
void arange(const TensorImpl& out, Scalar start, Scalar step, Workspace& workspace);
void linspace(const TensorImpl& out, double start, double end, double base, Workspace& workspace);
void frexp(const TensorImpl& x, const TensorImpl& mantissa, const TensorImpl& exponent, Workspace& workspace);

}  // namespace strata::cuda
