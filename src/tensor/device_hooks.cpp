#include "tensor/device_hooks.h"

#include <fmt/core.h>

#include "tensor/tensor.h"

namespace strata {

DeviceHooks device_hooks;
bool devices_in_use = false;

Ref<Storage> allocate_on(Device d, size_t bytes) {
  if (d.type != DeviceType::Meta) return device_hooks.allocate(d, bytes);
  devices_in_use = true;
  return adopt_memory(nullptr, bytes, nullptr, nullptr);
}

void refuse_copy_from_meta() { fail(ErrorKind::NotImplemented, "Cannot copy out of meta tensor; no data!"); }

void refuse_shape_from_values(const char* op) {
  fail(
    ErrorKind::NotImplemented,
    fmt::format("{}: the shape of the result depends on the values of the input, and a meta tensor has none. Call it "
                "on another device.",
                op));
}

Tensor to_host(const TensorImpl& t) {
  if (t.device.type == DeviceType::Meta) refuse_copy_from_meta();
  Tensor host = shape_only(t);
  host->device = {};
  int64_t low = 0, high = -1;  // range of the view's elements, relative to its first one
  if (t.numel) {
    high = 0;
    for (int d = 0; d < t.ndim; ++d) (t.strides[d] < 0 ? low : high) += (t.shape[d] - 1) * t.strides[d];
  }
  const auto size = static_cast<int64_t>(size_of(t.dtype));
  const auto bytes = static_cast<size_t>((high - low + 1) * size);
  host->allocate_bytes(bytes);
  need_values(t.storage.get(), "host");
  if (bytes) device_hooks.copy(host->data, {}, t.data + low * size, t.device, bytes, true);
  host->data -= low * size;
  return host;
}

void refuse_host_access(const TensorImpl& t) {
  STRATA_CHECK(t.device.type != DeviceType::Meta, NotImplemented,
               "Could not read the values of a meta tensor: it has a shape and a dtype only");
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
