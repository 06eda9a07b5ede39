// Copies and fills wherever the memory lies, for kernels that do nothing else: they serve the CPU and devices alike. Writes to
// meta tensors do nothing.
#pragma once
#include "tensor/tensor.h"

namespace strata {

// to = from, converted and broadcast, also between devices. Returns when host memory may be used again, unless `wait` is
// false and that memory is pinned.
void copy_values(const TensorImpl& to, const TensorImpl& from, bool wait = true);
void fill_values(const TensorImpl& to, Scalar value);
// The same tensor in host memory, without history: itself, or a copy from a device. For what composites must read.
Tensor host_values(const Tensor& t);
// Where a composite makes a tensor whose values it computes by hand: host memory, or device meta, which has no values to compute.
inline Device staging_device(const Tensor& beside) { return beside.is_meta() ? beside.device() : Device{}; }
// A tensor that a composite has made in host memory, on the device where its other tensors are.
Tensor placed(const Tensor& host);

// The same values in pinned host memory of a kind of device; the tensor itself where it is pinned already.
STRATA_API Tensor pin_memory(const Tensor& t, DeviceType type);

}  // namespace strata
