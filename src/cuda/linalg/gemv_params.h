// Parameters of the matrix-vector kernels; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kGemvThreads = 256, kGemvRows = 2;  // rows that a warp, or a block, computes at a time

// y = alpha * a x + beta * in. Rows of a, and x, start at multiples of 16 bytes.
struct GemvParams {
  uint64_t a, x, y, in;  // in may be 0: nothing is added
  int64_t rows, k, lda;
  double alpha, beta;
};

}  // namespace strata::cuda
