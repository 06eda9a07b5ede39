// The geometry of a batch of matrix products, shared by CPU and devices: c[m, n] = alpha * sum over k of a[m, k] b[k,
// n].
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata {

struct Product {
  static constexpr int kMaxBatch = 8;
  int64_t m = 1, n = 1, k = 1;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;  // strides in elements
  int32_t batch_dims = 0;
  int64_t batch[kMaxBatch], a_b[kMaxBatch], b_b[kMaxBatch], c_b[kMaxBatch];
  double alpha = 1;
};

}  // namespace strata
