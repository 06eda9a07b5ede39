// A product with weights of few bits, as all back ends see it: out = x w^T, w[n, k] = q[n, k] * scales[n, g] + zeros[n, g].
#pragma once
#include "tensor/tensor.h"

namespace strata {

// q has `bits` bits: int8 weights [n, k], or four bits minus 8 in uint8 [n, k / 2], whose byte j has k = 2j in its upper
// and 2j + 1 in its lower half. A group of k / groups neighbours along k has one scale.
struct WeightProduct {
  const TensorImpl &x, &weight, &scales, *zeros, &out;  // x [m, k]; scales and zeros [n] or [n, groups]
  int bits;

  int64_t rows() const { return x.shape[0]; }
  int64_t n() const { return weight.shape[0]; }
  int64_t k() const { return x.shape[1]; }
  int64_t groups() const { return scales.ndim == 2 ? scales.shape[1] : 1; }
  int64_t group() const { return groups() ? k() / groups() : 0; }
  // The element of scales or zeros for row n and group g.
  static int64_t row_step(const TensorImpl& t) { return t.strides[0]; }
  static int64_t group_step(const TensorImpl& t) { return t.ndim == 2 ? t.strides[1] : 0; }
};

}  // namespace strata
