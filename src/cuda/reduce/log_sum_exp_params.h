// Parameters of the kernel of logsumexp; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct LogSumExpParams {
  uint64_t x, out;  // [rows, n] and [rows], contiguous and of one type
  int32_t type;
  int32_t threads;  // of a row: a power of two
  int64_t rows, n;
};

}  // namespace strata::cuda
