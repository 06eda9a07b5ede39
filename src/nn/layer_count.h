// How many layers a module of layers may have.
#pragma once
#include "base/error.h"

namespace strata::nn {

constexpr int64_t kMaxLayers = 10'000;  // each is made at once; far more would take all memory, and minutes to find out

inline void check_layers(int64_t count, const char* module) {
  STRATA_CHECK(count <= kMaxLayers, Value, "{}: num_layers is {}; at most {} are possible", module, count, kMaxLayers);
}

}  // namespace strata::nn
