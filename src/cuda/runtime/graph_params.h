// Parameters of the first kernel of a replayed graph; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct RandomBaseParams {
  uint64_t base, seed, first;
};

}  // namespace strata::cuda
