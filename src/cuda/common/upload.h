// Small tables that the host computes for a kernel.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace strata::cuda {

// Copies a list of plain values to the device. The copy reads pageable memory before it returns.
template <class T> Tensor upload(const std::vector<T>& list, Device device) {
  const auto bytes = static_cast<int64_t>(list.size() * sizeof(T));
  Tensor t = make_tensor(Shape(&bytes, 1), DType::U8, device);
  device_hooks.copy(t.bytes(), device, list.data(), {}, static_cast<size_t>(bytes), true);
  return t;
}

}  // namespace strata::cuda
