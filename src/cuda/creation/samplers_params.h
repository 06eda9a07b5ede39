// Parameters of the kernels in samplers.cu; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct SamplerParams {
  uint64_t out, a, b;
  uint64_t worst;  // where an invalid rate of a Poisson number is reported
  int32_t out_type, a_type, b_type;
  int32_t a_step, b_step;  // 0: one parameter for all elements
  int64_t count;
  uint64_t seed, first;  // the stream and its first block
  uint64_t base;         // if not 0: the device address of both; `first` is added to the block
  double least;
};

struct NormalizeParams {
  uint64_t out, logs;
  int32_t out_type, logs_type;
  int64_t rows, n;
};

}  // namespace strata::cuda
