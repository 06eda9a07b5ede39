// The interface of a device back end: memory, copies, waiting. cuda/runtime fills the table before main() without
// opening a driver; a device is opened on first use.
#pragma once
#include "tensor/allocator.h"
#include "tensor/device.h"

namespace strata {

struct TensorImpl;
class Tensor;

struct DeviceHooks {
  Device (*open)(
    Device d);  // the device with its number; throws if it is not available, with what was found and what to do
  Ref<Storage> (*allocate)(Device d, size_t bytes);
  // Copies in the order of the device's current stream. The host memory may be reused when the call returns, unless it
  // is pinned and `wait` is false.
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, size_t bytes, bool wait);
  void (*synchronize)(Device d);
  void (*record_stream)(Storage& storage,
                        Device d);  // the current stream uses this memory, which may have been allocated in another one
};
STRATA_API extern DeviceHooks device_hooks;

// Whether a device, including meta, has been opened in this process. Until then no tensor can be on one, and calls skip
// the checks.
STRATA_API extern bool devices_in_use;

STRATA_API Ref<Storage> allocate_on(Device d, size_t bytes);  // any device except the CPU; meta: a size without memory

STRATA_API Tensor to_host(const TensorImpl& t);  // the same values and strides, in host memory; waits for the device
STRATA_API void require_host(const TensorImpl& t,
                             const char* what);  // throws Type if the host cannot read the memory
[[noreturn, gnu::cold]] STRATA_API void refuse_host_access(const TensorImpl& t);  // NotImplemented
// Meta tensors have no values: these throw NotImplemented for a copy, and for a result whose shape depends on values.
[[noreturn, gnu::cold]] STRATA_API void refuse_copy_from_meta();
[[noreturn, gnu::cold]] STRATA_API void refuse_shape_from_values(const char* op);

}  // namespace strata
