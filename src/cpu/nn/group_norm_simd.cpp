// The loops of group_norm.h: plain code, which the compiler vectorizes for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/group_norm_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/nn/group_norm.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {

constexpr int kSums = 32;  // independent sums, so that a loop of additions is vectorized in the order of the source

template <class T> void scale(int64_t n, const T* HWY_RESTRICT x, T weight, T* HWY_RESTRICT y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * weight;
}
template <class T> void affine(int64_t n, T weight, T bias, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] * weight + bias;
}
template <class T> void sums(int64_t n, const T* HWY_RESTRICT g, const T* HWY_RESTRICT x, T mean, T* sum_g, T* sum_gx) {
  T a[kSums] = {}, b[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int l = 0; l < kSums; ++l) {
      a[l] += g[i + l];
      b[l] += g[i + l] * (x[i + l] - mean);
    }
  for (int l = 0; i < n; ++i, ++l) {
    a[l] += g[i];
    b[l] += g[i] * (x[i] - mean);
  }
  for (int half = kSums / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) {
      a[l] += a[l + half];
      b[l] += b[l + half];
    }
  *sum_g = a[0];
  *sum_gx = b[0];
}
template <class T>
void add(int64_t n, const T* HWY_RESTRICT g, const T* HWY_RESTRICT x, T mean, T rstd, T* HWY_RESTRICT gx,
         T* HWY_RESTRICT gs) {
  for (int64_t i = 0; i < n; ++i) {
    gx[i] += g[i] * ((x[i] - mean) * rstd);
    gs[i] += g[i];
  }
}

const GroupLoops<float>* LoopsFloat() {
  static constexpr GroupLoops<float> loops{scale<float>, affine<float>, sums<float>, add<float>};
  return &loops;
}
const GroupLoops<double>* LoopsDouble() {
  static constexpr GroupLoops<double> loops{scale<double>, affine<double>, sums<double>, add<double>};
  return &loops;
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(LoopsFloat);
HWY_EXPORT(LoopsDouble);
template <> const GroupLoops<float>& group_loops<float>() { return *HWY_DYNAMIC_DISPATCH(LoopsFloat)(); }
template <> const GroupLoops<double>& group_loops<double>() { return *HWY_DYNAMIC_DISPATCH(LoopsDouble)(); }
}  // namespace strata::cpu
#endif
