// Norms over groups of channels. Data is [samples, groups, channels of a group, pixels], contiguous; the mean and the
// reciprocal standard deviation are [samples, groups]. Sums have a fixed order, so any thread count gives the same bits.
#pragma once
#include <cstdint>

namespace strata::cpu {

struct Groups {
  int64_t samples, groups, channels, pixels;
  int64_t size() const { return channels * pixels; }  // of a group
  int64_t sample_size() const { return groups * size(); }
};

// Weight and bias have an element per channel; each may be null.
template <class T>
void group_norm(const Groups& s, double eps, const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd);
// The gradients; those of weight and bias may be null.
template <class T>
void group_norm_backward(const Groups& s, const T* g, const T* x, const T* mean, const T* rstd, const T* weight, T* gx,
                         T* gweight, T* gbias);

// Loops of one channel or group, compiled for each SIMD target.
template <class T> struct GroupLoops {
  void (*scale)(int64_t n, const T* x, T weight, T* y);                          // y = x weight
  void (*affine)(int64_t n, T weight, T bias, T* y);                             // y = y weight + bias
  void (*sums)(int64_t n, const T* g, const T* x, T mean, T* sum_g, T* sum_gx);  // of g and of g (x - mean)
  // gx += g (x - mean) rstd, gs += g
  void (*add)(int64_t n, const T* g, const T* x, T mean, T rstd, T* gx, T* gs);
};
template <class T> const GroupLoops<T>& group_loops();

}  // namespace strata::cpu
