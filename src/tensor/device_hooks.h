// What a device back end gives to all layers: memory, copies, waiting. cuda/runtime fills the table in before main() without
// touching a driver; a device is opened when it is first named.
#pragma once
#include "tensor/allocator.h"
#include "tensor/device.h"

namespace strata {

struct TensorImpl;
class Tensor;

struct DeviceHooks {
  Device (*open)(
    Device d);  // the device with its number; throws with what was found and what to do where it cannot be had
  Ref<Storage> (*allocate)(Device d, size_t bytes);
  // Copies in the order of the device's current stream. Host memory may be used again when the call returns, unless it is
  // pinned and `wait` is false.
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, size_t bytes, bool wait);
  void (*synchronize)(Device d);
  void (*record_stream)(Storage& storage,
                        Device d);  // the current stream uses this memory, which another one may have made
};
STRATA_API extern DeviceHooks device_hooks;

// Whether a device has been opened in this process, meta included. Until then no tensor can lie on one, and calls need not look.
STRATA_API extern bool devices_in_use;

STRATA_API Ref<Storage> allocate_on(Device d, size_t bytes);  // of any device but the CPU; meta: a size without memory

STRATA_API Tensor
to_host(const TensorImpl& t);  // the same values behind the same strides, in host memory; waits for the device
STRATA_API void require_host(const TensorImpl& t,
                             const char* what);  // throws Type where the host cannot read the memory
[[noreturn, gnu::cold]] STRATA_API void refuse_host_access(const TensorImpl& t);  // NotImplemented
// Meta tensors have no values: NotImplemented for a copy of them, and for a result whose shape would depend on them.
[[noreturn, gnu::cold]] STRATA_API void refuse_copy_from_meta();
[[noreturn, gnu::cold]] STRATA_API void refuse_shape_from_values(const char* op);

}  // namespace strata
