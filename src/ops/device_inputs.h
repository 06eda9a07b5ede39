// Inputs of device kernels in the form those take: contiguous, without history, where needed of one dtype.
#pragma once
#include "strata/ops.h"

namespace strata {

// Tensor parameter i, contiguous; undefined when it is not given.
inline Tensor dense(const Call& c, uint32_t i) {
  return c.args.is_tensor(i) ? contiguous(alias(c.args.tensor(i))) : Tensor();
}
inline Tensor dense(const Call& c, uint32_t i, DType dtype) {
  return c.args.is_tensor(i) ? contiguous(to(alias(c.args.tensor(i)), dtype)) : Tensor();
}

}  // namespace strata
