// The device kernels of pointwise ops, copies and fills. Each kernel supports all dtypes and layouts.
#pragma once
#include "record/op.h"

namespace strata::cuda {

void run_pointwise(const Call& c);
void copy(const TensorImpl& to, const TensorImpl& from);  // on one device; broadcasts and converts
void fill(const TensorImpl& to, Scalar value);

}  // namespace strata::cuda
