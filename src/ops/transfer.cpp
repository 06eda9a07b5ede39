#include "ops/transfer.h"

#include "cpu/movement/copy.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/host_memory.h"
#include "record/op.h"

namespace strata {
namespace {

void copy_on(const TensorImpl& to, const TensorImpl& from) {
  if (to.device.type == DeviceType::Cpu) cpu::copy(to, from);
  else cuda::copy(to, from);
}

// A contiguous tensor of this shape, dtype and device.
Tensor staging(const TensorImpl& like, DType dtype, Device device) { return make_tensor(like.sizes(), dtype, device); }

// Copies between devices are bytewise: both sides are contiguous and of one dtype. Converting and broadcasting happens
// on the side where fewer bytes are copied.
void cross(const TensorImpl& to, const TensorImpl& from, bool wait) {
  const bool widens = size_of(to.dtype) > size_of(from.dtype) || to.numel != from.numel;
  const TensorImpl& shape = widens ? from : to;
  const DType dtype = widens ? from.dtype : to.dtype;
  Tensor source = alias(from), target = alias(to);
  if (!from.contiguous || from.dtype != dtype) {
    source = staging(from, dtype, from.device);
    copy_on(*source, from);
  }
  if (!to.contiguous || to.dtype != dtype || to.numel != shape.numel) target = staging(shape, dtype, to.device);
  const bool staged = source.bytes() != from.data || target.bytes() != to.data;
  device_hooks.copy(target.bytes(), to.device, source.bytes(), from.device,
                    static_cast<size_t>(shape.numel) * size_of(dtype), wait || staged);
  if (target.bytes() != to.data) copy_on(to, *target);
}
}  // namespace

void copy_values(const TensorImpl& to, const TensorImpl& from, bool wait) {
  if (to.device.type == DeviceType::Meta) return;
  if (from.device.type == DeviceType::Meta) refuse_copy_from_meta();
  if (to.device == from.device) return copy_on(to, from);
  if (to.numel) cross(to, from, wait);
}

Tensor host_values(const Tensor& t) { return t.device().type == DeviceType::Cpu ? alias(*t) : to_host(*t); }

Tensor placed(const Tensor& host) {
  const Device device = thread_state.default_device;
  if (device == host.device()) return host;
  const Tensor there = make_tensor(host.shape(), host.dtype(), device);
  copy_values(*there, *host);
  return there;
}

void fill_values(const TensorImpl& to, Scalar value) {
  if (to.device.type == DeviceType::Cpu) cpu::fill(to, value);
  else if (to.device.type != DeviceType::Meta) cuda::fill(to, value);
}

Tensor pin_memory(const Tensor& t, DeviceType type) {
  STRATA_CHECK(t.device().type == DeviceType::Cpu, Runtime, "cannot pin '{}': only dense CPU tensors can be pinned",
               to_string(t.device()));
  if (t->storage && t->storage->pinned) return t;
  cuda::Gpu& gpu = cuda::Runtime::gpu({type, -1});
  Tensor pinned = shape_only(*t);
  pinned->set_strides_like(*t);
  pinned->storage = cuda::HostMemory::of(type).allocate(gpu, static_cast<size_t>(t.numel()) * size_of(t.dtype()));
  pinned->data = pinned->storage->data;
  copy_values(*pinned, *t);
  return pinned;
}

}  // namespace strata
