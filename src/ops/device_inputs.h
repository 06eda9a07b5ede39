// Prepares inputs for device kernels: contiguous, without history, and of one dtype if needed.
#pragma once
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {

// Contiguous; undefined if the tensor is.
inline Tensor dense(const Tensor& t) { return t ? contiguous(alias(*t)) : Tensor(); }
inline Tensor dense(const Tensor& t, DType dtype) { return t ? contiguous(to(alias(*t), dtype)) : Tensor(); }

// The same for kernels with a plan: copies are in its workspace. While planning (`copies` is false), only their bytes are
// counted.
inline Tensor dense(const Tensor& t, DType dtype, Workspace& workspace, bool copies) {
  if (!t || (t->contiguous && t.dtype() == dtype)) return t;
  Tensor made = workspace.take(t.shape(), dtype);
  if (copies) copy_values(*made, *t);
  return made;
}
inline Tensor dense(const Tensor& t, Workspace& workspace, bool copies) {
  return t ? dense(t, t.dtype(), workspace, copies) : Tensor();
}

}  // namespace strata
