// Binary cross entropy on a device. Tensors are contiguous and of one dtype.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

void binary_cross_entropy(const TensorImpl& x, const TensorImpl& target, const TensorImpl& out);

}  // namespace strata::cuda
