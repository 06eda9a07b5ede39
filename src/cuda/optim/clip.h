// The norm of many tensors on a device, gradient clipping and unscaling, without waiting.
#pragma once
#include <span>

#include "record/kernel.h"

namespace strata::cuda {

// out, zero-dimensional: the norm of all elements of all tensors as if they were one vector.
void total_norm(std::span<const Tensor> tensors, double norm_type, const TensorImpl& out, Workspace& workspace);
// Scales the tensors so that a total norm above max_norm becomes max_norm. The norm is on their device.
void scale_to_norm(std::span<const Tensor> tensors, double max_norm, const TensorImpl& total, Workspace& workspace);

// Multiplies the tensors by factor, and sets found_inf to 1 if it is not 0 or an element was not finite. Both are one
// number on their device.
void scale_and_check(std::span<const Tensor> tensors, const TensorImpl& found_inf, const TensorImpl& factor,
                     Workspace& workspace);
// One update of the scale of gradients: see amp::GradScaler.
void update_scale(const TensorImpl& scale, const TensorImpl& growth_tracker, const TensorImpl& found_inf, double growth,
                  double backoff, int64_t interval);

}  // namespace strata::cuda
