// Inputs of device kernels in the form those take: contiguous, without history, where needed of one dtype.
#pragma once
#include "strata/ops.h"

namespace strata {

// Contiguous; undefined where the tensor is.
inline Tensor dense(const Tensor& t) { return t ? contiguous(alias(*t)) : Tensor(); }
inline Tensor dense(const Tensor& t, DType dtype) { return t ? contiguous(to(alias(*t), dtype)) : Tensor(); }

}  // namespace strata
