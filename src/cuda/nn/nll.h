// nll_loss on a device. Tensors are contiguous.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// loss: one number, or the weighted loss of each row; total: the sum of the weights of the rows that count. Of x's
// dtype.
void nll(const TensorImpl& x, const TensorImpl& target, const TensorImpl* weight, int64_t ignore, int64_t classes,
         int64_t inner, bool mean, const TensorImpl& loss, const TensorImpl& total, Workspace& workspace);
// total: the divisor of the mean; null for other reductions.
void nll_backward(const TensorImpl& grad, const TensorImpl& target, const TensorImpl* weight, int64_t ignore,
                  const TensorImpl* total, int64_t classes, int64_t inner, const TensorImpl& out);

}  // namespace strata::cuda
