// Parameters of the kernels of formulas.cu; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct RangeParams {
  uint64_t out;
  int32_t type;
  int32_t even;  // from start to end in `count` even steps, otherwise by `step`
  int64_t count, start_whole, step_whole;
  double start, step, end, base;  // base of the power; 0: none
};

struct FrexpParams {
  uint64_t x, mantissa, exponent;
  int32_t type;
  int64_t count;
};

}  // namespace strata::cuda
