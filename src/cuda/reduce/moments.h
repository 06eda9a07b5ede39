// Moments, and norms over channels, on a device.
#pragma once
#include "record/kernel.h"
#include "record/reduction.h"

namespace strata::cuda {

// As cpu::moments: variance divided by (count - correction), or its root, and the mean; either output may be null.
struct MomentsCall {
  const TensorImpl& x;
  DimMask reduced;
  double correction;
  bool root;
  const TensorImpl *variance, *mean;
};
void moments(const MomentsCall& m, Workspace& workspace);

// Whether the kernels take x [n, c, …] as it is although it is not contiguous: rows of channels, in 16-byte pieces.
bool channels_in_rows(const TensorImpl& x);

// x is [n, c, …] and contiguous, or channels_in_rows; y and gradients have its strides and are 16-byte aligned if x is
// channels_in_rows. All other tensors are contiguous; optional ones may be null.
struct BatchNorm {
  const TensorImpl &x, &y;
  const TensorImpl *weight, *bias, *running_mean, *running_var;
  const TensorImpl *mean, *rstd;  // results in training; null: the running statistics are used
  double momentum, eps;
  const TensorImpl* other = nullptr;  // added to the result, with its strides
  bool relu = false;                  // of the sum
};
void batch_norm(const BatchNorm& b, Workspace& workspace);
void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& rstd, const TensorImpl& grad_x, const TensorImpl& grad_weight,
                         const TensorImpl& grad_bias, Workspace& workspace);
// Column sums over rows of grad (x - mean[row]) rstd[row], and of grad; mean and grad_bias may be null.
void column_grad_sums(int64_t rows, const TensorImpl& grad, const TensorImpl& x, const TensorImpl* mean,
                      const TensorImpl& rstd, const TensorImpl& grad_weight, const TensorImpl* grad_bias,
                      Workspace& workspace);

}  // namespace strata::cuda
