// Padding with a value on a device.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

// out[i] = x[i - before], or the value where that is outside of x; before has an entry per dimension, negative ones crop.
// value: one element of x's dtype in host memory.
struct Padding {
  const TensorImpl& x;
  const TensorImpl& out;
  const int64_t* before;
  const std::byte* value;
};
// Why the kernel does not support it; null if it does.
const char* pad_objection(const Padding& padding);
void pad(const Padding& padding);

}  // namespace strata::cuda
