// The Philox blocks of a launch.
#pragma once
#include "device/philox.h"

namespace strata::cuda {

// A captured launch reads the seed and the stream position from the device, where each replay writes them.
struct Blocks {
  uint64_t seed, first;
  template <class Params> __device__ explicit Blocks(const Params& p) : seed(p.seed), first(p.first) {
    if (const auto* base = reinterpret_cast<const uint64_t*>(p.base)) {
      seed = base[0];
      first += base[1];
    }
  }
  __device__ __forceinline__ PhiloxBlock operator[](int64_t block) const {
    return philox(seed, first + uint64_t(block));
  }
};

}  // namespace strata::cuda
