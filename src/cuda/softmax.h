// softmax on a device. All tensors are contiguous.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

void softmax(const TensorImpl& x, int dim, bool log, const TensorImpl& out);
void softmax_backward(const TensorImpl& grad, const TensorImpl& result, int dim, bool log, const TensorImpl& out);

}  // namespace strata::cuda
