// Contiguous versions of tensors for kernels that use linear indices; copies if necessary.
#pragma once
#include "cuda/common/tensors.h"
#include "cuda/pointwise/pointwise.h"
#include "record/kernel.h"

namespace strata::cuda {

// The tensor itself, or a contiguous copy in the workspace. While planning (`copies` is false), only its bytes are
// counted.
inline Tensor dense(const TensorImpl& t, Workspace& workspace, bool copies) {
  if (t.contiguous) return alias(t);
  Tensor made = workspace.take(t.sizes(), t.dtype);
  if (copies) copy(*made, t);
  return made;
}
inline Tensor dense(const TensorImpl& t) {
  if (t.contiguous) return alias(t);
  Tensor made = make_tensor(t.sizes(), t.dtype, t.device);
  copy(*made, t);
  return made;
}

// An output that a kernel writes contiguously; finish() copies it to its target.
class DenseOut {
 public:
  DenseOut(const TensorImpl& to, Workspace& workspace)
      : to_(to), held_(to.contiguous ? alias(to) : workspace.take(to.sizes(), to.dtype)) {}
  explicit DenseOut(const TensorImpl& to)
      : to_(to), held_(to.contiguous ? alias(to) : make_tensor(to.sizes(), to.dtype, to.device)) {}
  const TensorImpl& operator*() const { return *held_; }
  const TensorImpl* operator->() const { return held_.get(); }
  void finish() const {
    if (held_.bytes() != to_.data) copy(to_, *held_);
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
