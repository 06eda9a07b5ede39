// Axes of a tensor as kernel parameters; included by host and device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kAxesMost = 10;

// n / divisor for n < 2^31 with one multiplication: Granlund and Montgomery's round-up method.
struct FastDivisor {
  uint32_t divisor, multiplier, shift;
};

struct AxesParams {
  int64_t count;
  int32_t dims;  // the fastest first
  FastDivisor size[kAxesMost];
  int64_t stride[kAxesMost];  // in elements
};

}  // namespace strata::cuda
