#include "onnx/ops/common.h"

namespace strata::onnx {

Tensor host_ints(const Ints& values) {
  return tensor_from_memory(values.data(), static_cast<int64_t>(values.size()), DType::I64, {});
}
Tensor host_int(int64_t value) { return full({}, value, TensorOptions(DType::I64)); }
Tensor cast(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : to(t, dtype); }
Tensor moved(const Tensor& t, Device device) { return t.device() == device ? t : to(t, device); }

}  // namespace strata::onnx
