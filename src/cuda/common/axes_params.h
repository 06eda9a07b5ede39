// Axes of a tensor as the host tells them to a kernel; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kAxesMost = 10;

// n / divisor for n < 2^31 by one multiplication: Granlund and Montgomery's round-up method.
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
