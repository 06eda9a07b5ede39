// Parameters of the kernels of histograms; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kSharedBins = 8192;  // counts that a block keeps in shared memory

struct HistogramParams {
  uint64_t x, counts;  // counts: int64, [bins]
  int32_t type;
  int64_t n, part;  // numbers, and how many of them a block counts
  int64_t bins;
  double low, high;
};

}  // namespace strata::cuda
