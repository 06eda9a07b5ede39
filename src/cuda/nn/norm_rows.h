// Norms over the last dimensions on a device. Tensors are contiguous; optional ones may be null.
#pragma once
#include "record/rows.h"

namespace strata::cuda {

// y = (x - mean) * rstd * weight + bias over rows of n. mean null: the root mean square norm.
void norm_rows(const TensorImpl& x, int64_t n, const TensorImpl* weight, const TensorImpl* bias, double eps,
               const TensorImpl& y, const TensorImpl* mean, const TensorImpl& rstd);
// The gradient of x.
void norm_rows_backward(const TensorImpl& grad, const TensorImpl& x, int64_t n, const TensorImpl* mean,
                        const TensorImpl& rstd, const TensorImpl* weight, const TensorImpl& out);

// The same in groups of ops. Null: the kernels of single ops would not hold the rows in registers, and have other bits.
std::shared_ptr<GpuRows> norm_in_group(const TensorImpl& x, int64_t n, const TensorImpl* weight, const TensorImpl* bias,
                                       double eps, bool centred);
std::shared_ptr<GpuRows> norm_backward_in_group(const TensorImpl& grad, const TensorImpl& x, int64_t n, bool centred,
                                                const TensorImpl* weight);

}  // namespace strata::cuda
