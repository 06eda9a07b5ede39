// Small tables that the host computes for a kernel.
#pragma once
#include <vector>

#include "record/kernel.h"

namespace strata::cuda {

// Copies a list of plain values to the workspace. The copy reads pageable memory before it returns.
template <class T> Tensor upload(const std::vector<T>& list, Workspace& workspace) {
  const size_t bytes = list.size() * sizeof(T);
  Tensor t = workspace.take(static_cast<int64_t>(bytes), DType::U8);
  if (t.bytes()) device_hooks.copy(t.bytes(), t.device(), list.data(), {}, bytes, true);
  return t;
}

}  // namespace strata::cuda
