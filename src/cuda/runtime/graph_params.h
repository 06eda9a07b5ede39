// Parameters of the kernel that a replayed graph begins with; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct RandomBaseParams {
  uint64_t base, seed, first;
};

}  // namespace strata::cuda
