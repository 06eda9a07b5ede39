// Prepares inputs for device kernels: contiguous, without history, and of one dtype if needed.
#pragma once
#include "cuda/movement/dense.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {

// Contiguous; undefined if the tensor is.
inline Tensor dense(const Tensor& t) { return t ? contiguous(alias(*t)) : Tensor(); }
inline Tensor dense(const Tensor& t, DType dtype) { return t ? contiguous(to(alias(*t), dtype)) : Tensor(); }

// The same with copies in the workspace of a plan.
inline Tensor dense(const Tensor& t, DType dtype, Workspace& workspace) {
  return t ? cuda::dense(*t, dtype, workspace) : Tensor();
}
inline Tensor dense(const Tensor& t, Workspace& workspace) { return t ? cuda::dense(*t, workspace) : Tensor(); }

}  // namespace strata
