// Parameters of the kernels of layer and root mean square norms; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kNormInRegisters = 64;  // bytes of a row, in the compute type, held by a thread

struct NormRowsParams {
  uint64_t x, grad, weight, bias;  // grad: for the backward pass; weight and bias may be 0
  uint64_t y, mean, rstd;          // mean and rstd: of the compute type; mean 0: the root mean square norm
  int32_t x_type, grad_type, weight_type, bias_type, y_type;
  int32_t threads;  // per row: a power of two
  int32_t centred;
  int64_t rows, n;
  double eps, each;  // each: 1 / n
};

}  // namespace strata::cuda
