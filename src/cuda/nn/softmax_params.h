// Parameters of a softmax kernel; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kSoftmaxInRegisters = 16;  // elements of a row held by a thread of softmax_rows.cu

// [rows, n, columns], contiguous; the softmax is over n.
struct SoftmaxParams {
  uint64_t x, y, grad;  // forward: x to y; backward: grad and the result x to y
  int32_t x_type, y_type, grad_type;
  int32_t log;
  int64_t rows, n, columns;
  int32_t per_block;  // rows (times columns) per block: a power of two
  int32_t threads;    // per row, in softmax_rows.cu: a power of two, 8 or more
};

}  // namespace strata::cuda
