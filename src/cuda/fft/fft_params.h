// Parameters of the Fourier kernels; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct FftParams {
  uint64_t in, out;        // complex numbers; lines are contiguous
  int64_t lines, n;        // n: elements of a line of the output
  int64_t groups, stride;  // of a pass: see fft.cu
  int32_t radix, sign;     // sign of the exponent: -1 forward, 1 backward
  double scale;
};

}  // namespace strata::cuda
