// The windows of max_pool2d that contain an input element, along one dimension.
#pragma once
#include "cuda/common/index.cuh"
#include "cuda/nn/max_pool_params.h"

namespace strata::cuda {

// Calls f(place in the window, window) in ascending order of places.
template <class F> __device__ __forceinline__ void each_window(const MaxPoolParams& p, int dim, int32_t at, F f) {
  if (p.dilation[dim] == 1) {
    uint32_t last = uint32_t(at + p.padding[dim]);
    int place = int(split_off(last, p.stride_div[dim]));
    for (int window = int(last); place < p.kernel[dim] && window >= 0; place += p.stride[dim], --window)
      if (window < p.out[dim]) f(place, window);
    return;
  }
  for (int place = 0; place < p.kernel[dim]; ++place) {
    const int32_t from = at + p.padding[dim] - place * p.dilation[dim];
    if (from < 0) break;
    uint32_t window = uint32_t(from);
    if (split_off(window, p.stride_div[dim]) == 0 && int32_t(window) < p.out[dim]) f(place, int(window));
  }
}

}  // namespace strata::cuda
