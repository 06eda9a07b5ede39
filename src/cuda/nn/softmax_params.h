// What the host tells a softmax kernel; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kSoftmaxInRegisters = 16;  // elements of a row that a thread of softmax_rows.cu holds

// [rows, n, columns], contiguous; the softmax is over n.
struct SoftmaxParams {
  uint64_t x, y, grad;  // forward: x to y; backward: grad and the result x to y
  int32_t x_type, y_type, grad_type;
  int32_t log;
  int64_t rows, n, columns;
  int32_t per_block;  // rows (times columns) of one block: a power of two
  int32_t threads;    // of one row, in softmax_rows.cu: a power of two, 32 or more
};

}  // namespace strata::cuda
