// logsumexp of rows on a device.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// out = log(sum(exp(x))) over the last dimension of x, which is floating; both have one dtype.
void log_sum_exp(const TensorImpl& out, const TensorImpl& x, Workspace& workspace);

}  // namespace strata::cuda
