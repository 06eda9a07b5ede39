// Parameters of the kernels that clip and unscale gradients; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kClippedPerLaunch = 128;  // tensors: launch parameters are limited to 4 KiB

struct ClippedTensor {  // contiguous or permuted, without gaps
  uint64_t data;
  int64_t count;
  int32_t type, vectors;
};
struct ClipParams {
  int32_t tensors, piece;  // how many; elements per block
  int32_t kind;            // of norm
  int32_t total_type;
  uint64_t partial;  // output of the first block: each writes one double
  uint64_t total;    // the norm
  double power, max_norm;
  uint32_t first_block[kClippedPerLaunch];  // of each tensor
  ClippedTensor tensor[kClippedPerLaunch];
};
static_assert(sizeof(ClipParams) <= 4096, "more than a launch can pass");

enum NormKind : int32_t { kSumOfPowers, kSumOfSquares, kSumOfSizes, kCount, kLargest, kSmallest };
struct TotalNormParams {
  uint64_t partials, out;
  int64_t count;
  int32_t kind, out_type;
  double power;
};

struct ScaleParams {  // of GradScaler.update()
  uint64_t scale, growth_tracker, found_inf;
  int32_t scale_type, tracker_type, found_type;
  double growth, backoff;
  int64_t interval;
};

}  // namespace strata::cuda
