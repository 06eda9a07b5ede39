// Unscaling of gradients, for training in float16.
#pragma once
#include <span>

#include "tensor/tensor.h"

namespace strata::cpu {

// Multiplies the tensors by factor in place; returns whether all elements were finite before. Each is read and written
// once.
STRATA_API bool scale_and_check(std::span<const Tensor> tensors, float factor);

}  // namespace strata::cpu
