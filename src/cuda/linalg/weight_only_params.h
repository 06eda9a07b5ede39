// Parameters of the weight-only product kernels; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kWeightThreads = 256;
constexpr int kWeightRows = 4;  // rows of x in one pass over the weights, without tensor cores

// out[m, n] = sum over k of x[m, k] w[n, k], where w[n, k] = q[n, k] * scales[n, g] + zeros[n, g] and g = k / group.
// q is int8, or four bits minus 8: byte j of a row has k = 2j in its upper and 2j + 1 in its lower half. Strides are in
// elements; a row of weights is dense.
struct WeightParams {
  uint64_t x, weight, scales, zeros, out;                   // zeros may be 0
  int64_t x_m, x_k, w_n, s_n, s_g, z_n, z_g, out_m, out_n;  // w_n: bytes
  int64_t rows, n, k, group;
  int32_t x_type, scale_type, zero_type, out_type;
  int32_t wide;  // 16 bytes of weights are aligned and of one group
};

}  // namespace strata::cuda
