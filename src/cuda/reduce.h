// Reductions on a device, in the terms of cpu/reduce.h.
#pragma once
#include "record/reduction.h"

namespace strata::cuda {

void reduce(Fold fold, const TensorImpl& x, uint32_t reduced, DType cast, const TensorImpl& out, Finish finish = {});
// The first place of the largest (smallest) value along dim; NaN counts as both. `values` may be null.
void arg_reduce(bool largest, const TensorImpl& x, int dim, const TensorImpl* values, const TensorImpl& indices);

}  // namespace strata::cuda
