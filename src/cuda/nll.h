// nll_loss on a device. Tensors are contiguous.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

// losses and scales (of x's compute type, one element per target): the weighted loss of each place, and its weight.
void nll(const TensorImpl& x, const TensorImpl& target, const TensorImpl* weight, int64_t ignore, int64_t classes,
         int64_t inner, const TensorImpl& losses, const TensorImpl& scales);
// total: what the mean was divided by; null for other reductions.
void nll_backward(const TensorImpl& grad, const TensorImpl& target, const TensorImpl* weight, int64_t ignore,
                  const TensorImpl* total, int64_t classes, int64_t inner, const TensorImpl& out);

}  // namespace strata::cuda
