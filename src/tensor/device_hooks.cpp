#include "tensor/device_hooks.h"

#include "tensor/tensor.h"

namespace strata {

DeviceHooks device_hooks;
bool devices_in_use = false;

Tensor to_host(const TensorImpl& t) {
  Tensor host = shape_only(t);
  host->device = {};
  int64_t low = 0, high = -1;  // the elements the view reaches, from its first one
  if (t.numel) {
    high = 0;
    for (int d = 0; d < t.ndim; ++d) (t.strides[d] < 0 ? low : high) += (t.shape[d] - 1) * t.strides[d];
  }
  const auto size = static_cast<int64_t>(size_of(t.dtype));
  const auto bytes = static_cast<size_t>((high - low + 1) * size);
  host->allocate_bytes(bytes);
  if (bytes) device_hooks.copy(host->data, {}, t.data + low * size, t.device, bytes, true);
  host->data -= low * size;
  return host;
}

void refuse_host_access(const TensorImpl& t) {
  fail(
    ErrorKind::NotImplemented,
    fmt::format("Could not read a tensor on device '{}' from the host: what was called has no kernel for it. Copy its "
                "inputs to the CPU with .cpu() first.",
                to_string(t.device)));
}

void require_host(const TensorImpl& t, const char* what) {
  STRATA_CHECK(t.device.type == DeviceType::Cpu, Type,
               "can't convert {} device type tensor to {}. Use Tensor.cpu() to copy the tensor to host memory first.",
               to_string(t.device), what);
}

}  // namespace strata
