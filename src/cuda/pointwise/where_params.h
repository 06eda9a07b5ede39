// Parameters of the kernels of where(); shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kWhereThreads = 256;

// All are contiguous and start at multiples of 16 bytes.
struct WhereParams {
  uint64_t condition, yes, no, to;
  int64_t count;
};

}  // namespace strata::cuda
