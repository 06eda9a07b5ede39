// Sums into a view whose elements may share memory, for the gradients of views.
#pragma once
#include "tensor/tensor.h"

namespace strata::cpu {

// dst += src for tensors of one compute type (float, double, int64) and of equal shapes. Several elements of dst may be
// the same memory; the order of the sums depends on the geometry only, not on the number of threads.
STRATA_API void add_overlapping(const TensorImpl& dst, const TensorImpl& src);

}  // namespace strata::cpu
