// Parameters of the kernels of random permutations; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct PermutationParams {
  uint64_t keys;    // uint32, [count]: the upper bits of the numbers; then sorted
  uint64_t places;  // uint32, [count]: the positions of the sorted keys
  uint64_t out;     // int64, [count]
  int64_t count;
  uint64_t seed, first, base;  // as in random_params.h
  int32_t shift;               // of the upper 32 bits of a number, to its key
};

}  // namespace strata::cuda
