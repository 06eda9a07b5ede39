// Walks over memory in parts that kernels can address with 32-bit offsets and kAxesMost dimensions.
#pragma once
#include <algorithm>
#include <cstdlib>

#include "cuda/common/axes_params.h"
#include "record/walk.h"

namespace strata::cuda {

// Calls f with the walk if its dimensions and offsets fit. Otherwise splits it: into the indices of its slowest dimension,
// or along its longest one.
template <class F> void each_launchable(const Walk& w, const F& f) {
  if (w.ndim > kAxesMost) [[unlikely]] {
    for (int64_t i = 0; i < w.shape[0]; ++i) {
      Walk one = w.part(0, i, 1);
      one.collapse();
      each_launchable(one, f);
    }
    return;
  }
  constexpr int64_t kMostOffset = INT32_MAX;  // in elements, per launch
  bool fits = w.total <= kMostOffset;
  for (int k = 0; k < w.views && fits; ++k) {
    int64_t reach = 0;
    for (int d = 0; d < w.ndim; ++d) reach += (w.shape[d] - 1) * std::abs(w.view[k].step[d]);
    fits = reach <= kMostOffset;
  }
  if (fits) return f(w);
  const auto d = static_cast<int>(std::max_element(w.shape, w.shape + w.ndim) - w.shape);
  const int64_t half = w.shape[d] / 2;
  each_launchable(w.part(d, 0, half), f);
  each_launchable(w.part(d, half, w.shape[d] - half), f);
}

}  // namespace strata::cuda
