// Prepares inputs for device kernels: contiguous, without history, and of one dtype if needed.
#pragma once
#include "strata/ops.h"

namespace strata {

// Contiguous; undefined if the tensor is.
inline Tensor dense(const Tensor& t) { return t ? contiguous(alias(*t)) : Tensor(); }
inline Tensor dense(const Tensor& t, DType dtype) { return t ? contiguous(to(alias(*t), dtype)) : Tensor(); }

}  // namespace strata
