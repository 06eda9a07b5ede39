// The maximum number of layers of a module.
#pragma once
#include "base/error.h"

namespace strata::nn {

constexpr int64_t kMaxLayers = 10'000;  // all are created at once; more would exhaust the memory after minutes

inline void check_layers(int64_t count, const char* module) {
  STRATA_CHECK(count <= kMaxLayers, Value, "{}: num_layers is {}; at most {} are possible", module, count, kMaxLayers);
}

}  // namespace strata::nn
