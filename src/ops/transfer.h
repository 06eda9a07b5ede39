// Copies and fills for any device, for kernels that do nothing else: they serve the CPU and devices alike. Writes to
// meta tensors do nothing.
#pragma once
#include "tensor/tensor.h"

namespace strata {

// to = from, converted and broadcast, also between devices. Returns when host memory may be reused, unless `wait` is
// false and that memory is pinned.
void copy_values(const TensorImpl& to, const TensorImpl& from, bool wait = true);
void fill_values(const TensorImpl& to, Scalar value);
// The same tensor in host memory, without history: itself, or a copy from a device. For composites that read values.
Tensor host_values(const Tensor& t);
// Where a composite creates a tensor whose values it computes itself: host memory, or device meta, which has no values.
inline Device staging_device(const Tensor& beside) { return beside.is_meta() ? beside.device() : Device{}; }
// Moves a tensor that a composite has created in host memory to the device of its other tensors.
Tensor placed(const Tensor& host);

// Whether a composite uses an op that has no kernel for devices of its own; a meta tensor has the layout of the CPU.
inline bool on_host(const Tensor& t) { return t.device().type == DeviceType::Cpu || t.is_meta(); }

// The same values in pinned host memory of a kind of device; the tensor itself if it is already pinned.
STRATA_API Tensor pin_memory(const Tensor& t, DeviceType type);

}  // namespace strata
