#include "record/kernel.h"

#include "base/checked.h"

namespace strata {

Tensor Workspace::take(Shape shape, DType dtype) {
  constexpr size_t kAlign = 256;  // enough for any vector width, and for separate cache lines
  const size_t bytes = static_cast<size_t>(checked_numel(shape)) * size_of(dtype);
  const size_t begin = used_;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  if (plan_) plan_->workspace = used_;
  else STRATA_ASSERT(!bytes || (memory_ && used_ <= static_cast<size_t>(memory_->numel)));
  Tensor piece = Ref<TensorImpl>::adopt(TensorImpl::make());
  piece->dtype = dtype;
  piece->set_shape(shape);
  piece->set_contiguous_strides();
  if (plan_ || !bytes) return piece;
  piece->device = memory_->device;
  piece->storage = memory_->storage;
  piece->data = memory_->data + begin;
  return piece;
}

}  // namespace strata
