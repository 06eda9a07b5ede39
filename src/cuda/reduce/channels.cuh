// The factors of channels in a norm over channels.
#pragma once
#include "cuda/common/eights.cuh"
#include "cuda/reduce/moments_params.h"

namespace strata::cuda {

// Of kCount neighbouring channels: of one, or of eight whose first is a multiple of eight.
template <class T, int kCount> struct ChannelFactors {
  T center[kCount], scale[kCount], shift[kCount];

  __device__ __forceinline__ ChannelFactors(const ChannelParams& p, int64_t first) {
    if (!p.given) {
      get(p.center, TagOf<T>::value, first, center);
      get(p.scale, TagOf<T>::value, first, scale);
      get(p.shift, TagOf<T>::value, first, shift);
      return;
    }
    T variance[kCount];
    get(p.mean, p.mean_type, first, center);
    get(p.variance, p.variance_type, first, variance);
    if (p.weight) get(p.weight, p.weight_type, first, scale);
    if (p.bias) get(p.bias, p.bias_type, first, shift);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const T rstd = T(1) / sqrt(variance[j] + T(p.eps));
      scale[j] = p.weight ? scale[j] * rstd : rstd;
      if (!p.bias) shift[j] = T(0);
      if (sizeof(T) == 4 && p.mean_type == kF64)  // corrects the rounding of the mean
        shift[j] -= T(load<double>(element(p.mean, kF64, first + j), kF64) - double(center[j])) * scale[j];
    }
  }
  static __device__ __forceinline__ void get(uint64_t data, int32_t type, int64_t first, T (&v)[kCount]) {
    if constexpr (kCount == 8) {
      if (data % 16 == 0) return load_eight<T>(element(data, type, first), type, v);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) v[j] = load<T>(element(data, type, first + j), type);
  }
};

}  // namespace strata::cuda
