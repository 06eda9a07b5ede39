// Grouped products on a device (grouped.cuh).
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

// out = a b by groups, whose ends are `offsets` (int32, dense): rows of a for [t, k] x [g, k, n], columns of b for
// [g, m, k] x [k, t], parts of the sums for [m, t] x [t, n].
void grouped_product(const TensorImpl& a, const TensorImpl& b, const TensorImpl& offsets, const TensorImpl& out);

const char* grouped_product_rejects(const TensorImpl& out);  // null, or the reason

}  // namespace strata::cuda
