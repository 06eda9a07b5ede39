// The norm of many tensors on a device, and gradient clipping, without waiting.
#pragma once
#include <span>

#include "tensor/tensor.h"

namespace strata::cuda {

// out, zero-dimensional: the norm of all elements of all tensors as if they were one vector.
void total_norm(std::span<const Tensor> tensors, double norm_type, const TensorImpl& out);
// Scales the tensors so that a total norm above max_norm becomes max_norm. The norm is on their device.
void scale_to_norm(std::span<const Tensor> tensors, double max_norm, const TensorImpl& total);

}  // namespace strata::cuda
