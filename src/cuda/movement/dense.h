// Contiguous versions of tensors for kernels that use linear indices; copies if necessary.
#pragma once
#include "cuda/common/tensors.h"
#include "cuda/pointwise/pointwise.h"
#include "record/kernel.h"

namespace strata::cuda {

// A contiguous copy in the workspace.
inline Tensor copied(const TensorImpl& t, DType dtype, Workspace& workspace) {
  Tensor made = workspace.take(t.sizes(), dtype);
  if (!workspace.planning()) copy(*made, t);
  return made;
}
// The tensor itself if it is contiguous and of this dtype, otherwise such a copy.
inline Tensor dense(const TensorImpl& t, DType dtype, Workspace& workspace) {
  return t.contiguous && t.dtype == dtype ? alias(t) : copied(t, dtype, workspace);
}
inline Tensor dense(const TensorImpl& t, Workspace& workspace) { return dense(t, t.dtype, workspace); }
// The same for launchers that no kernel calls, and which therefore have no plan.
inline Tensor dense(const TensorImpl& t) {
  if (t.contiguous) return alias(t);
  Tensor made = make_tensor(t.sizes(), t.dtype, t.device);
  copy(*made, t);
  return made;
}

// An output that a kernel writes contiguously, in another dtype if one is given; finish() copies it to its target.
class DenseOut {
 public:
  DenseOut(const TensorImpl& to, DType dtype, Workspace& workspace)
      : to_(to), held_(to.contiguous && to.dtype == dtype ? alias(to) : workspace.take(to.sizes(), dtype)) {}
  DenseOut(const TensorImpl& to, Workspace& workspace) : DenseOut(to, to.dtype, workspace) {}
  const TensorImpl& operator*() const { return *held_; }
  const TensorImpl* operator->() const { return held_.get(); }
  void finish() const {
    if (held_.bytes() && held_.bytes() != to_.data) copy(to_, *held_);  // it has no memory while planning
  }

 private:
  const TensorImpl& to_;
  Tensor held_;
};

// A contiguous tensor as [outer][n][inner] with n along dim.
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
  Split(const TensorImpl& t, int dim) {
    for (int d = 0; d < t.ndim; ++d) (d < dim ? outer : d == dim ? n : inner) *= t.shape[d];
  }
  int64_t lines() const { return outer * inner; }
};

}  // namespace strata::cuda
