// Network utilities: gradient clipping, parameters as one vector.
#pragma once
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace strata::nn::utils {

// The norm of all elements of all tensors, as if they were one vector.
STRATA_API Tensor get_total_norm(std::span<const Tensor> tensors, double norm_type = 2,
                                 bool error_if_nonfinite = false);
// Scales the gradients of the parameters in place to a total norm of at most max_norm; returns the norm before.
STRATA_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type = 2,
                                  bool error_if_nonfinite = false);
// The second half of it, with a norm computed before.
STRATA_API void clip_grads_with_norm_(std::span<const Tensor> parameters, double max_norm, const Tensor& total_norm);
// Limits each element of the gradients to [-clip_value, clip_value], in place.
STRATA_API void clip_grad_value_(std::span<const Tensor> parameters, double clip_value);
// Concatenates the parameters to one vector, and back.
STRATA_API Tensor parameters_to_vector(std::span<const Tensor> parameters);
STRATA_API void vector_to_parameters(const Tensor& vector, std::span<const Tensor> parameters);

}  // namespace strata::nn::utils
