// The device hooks of the tensor layer, registered before main().
#include "base/error.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/host_memory.h"
#include "cuda/runtime/peer.h"
#include "record/op.h"
#include "tensor/device_hooks.h"

namespace strata::cuda {
namespace {

Device open(Device d) { return Runtime::gpu(d).device(); }

Ref<Storage> allocate(Device d, size_t bytes) {
  Gpu& gpu = Runtime::gpu(d);
  return gpu.allocator->allocate(bytes, Stream::current(gpu).handle());
}

driver::CUdeviceptr address(const void* p) { return reinterpret_cast<driver::CUdeviceptr>(p); }

void copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes, bool wait) {
  if (bytes == 0) return;
  const bool up = from_device.type == DeviceType::Cpu, down = to_device.type == DeviceType::Cpu;
  if (!up && !down && !(to_device == from_device)) {
    if (to_device.type == from_device.type)
      return copy_between(Runtime::gpu(to_device), to, Runtime::gpu(from_device), from, bytes);
    // Two drivers can only exchange data through the host.
    const Ref<Storage> between = strata::allocate(bytes);
    copy(between->data, {}, from, from_device, bytes, true);
    return copy(to, to_device, between->data, {}, bytes, true);
  }
  const Stream stream = stream_of(up ? to_device : from_device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  const driver::Table& t = gpu.table();
  STRATA_CHECK(
    !up || !gpu.allocator->capturing() || HostMemory::of(gpu.runtime.type).holds(from) || !is_capturing(to_device),
    Runtime,
    "{}: a graph cannot capture a copy from host memory that is not pinned, since replays would read it anew; "
    "pin it, or copy it to {} before the capture",
    thread_state.op ? thread_state.op->name : "copy", to_string(to_device));
  if (!up && !down) return gpu.check(t.cuMemcpyDtoDAsync(address(to), address(from), bytes, stream.handle()), "copy");
  if (up) gpu.check(t.cuMemcpyHtoDAsync(address(to), from, bytes, stream.handle()), "copy from the host");
  else gpu.check(t.cuMemcpyDtoHAsync(to, address(from), bytes, stream.handle()), "copy to the host");
  HostMemory& host = HostMemory::of(gpu.runtime.type);
  const void* memory = up ? from : to;
  const bool pinned = host.holds(memory);
  if (pinned && !wait) host.used_by(memory, stream);
  else if (pinned || down) stream.synchronize();  // the driver has read pageable memory when the call returns
}

void synchronize(Device d) {
  need_values(nullptr, "synchronize");
  Gpu& gpu = Runtime::gpu(d);
  gpu.activate();
  gpu.check(gpu.table().cuCtxSynchronize(), "finish its work");
  raise_faults(gpu);
}

void record_stream(Storage& storage, Device d) {
  Gpu& gpu = Runtime::gpu(d);
  gpu.allocator->record_stream(storage, Stream::current(gpu).handle());
}

[[maybe_unused]] const bool filled = (device_hooks = {open, allocate, copy, synchronize, record_stream}, true);

}  // namespace
}  // namespace strata::cuda
