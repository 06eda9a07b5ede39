#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/moments.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/moments.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T> HWY_INLINE T deviation(const T* x, int64_t n, T mean) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  const auto add = [&](auto& acc, int64_t at) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, x + at), m);
    acc = hn::MulAdd(v, v, acc);
  };
  for (; i + 4 * lanes <= n; i += 4 * lanes) add(a, i), add(b, i + lanes), add(c, i + 2 * lanes), add(e, i + 3 * lanes);
  for (; i + lanes <= n; i += lanes) add(a, i);
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) total += (x[i] - mean) * (x[i] - mean);
  return total;
}

template <class T>
HWY_INLINE void deviation_columns(const T* const* rows, int count, int64_t n, const T* mean, T* acc) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto m = hn::LoadU(d, mean + i);
    auto a = hn::LoadU(d, acc + i);
    for (int r = 0; r < count; ++r) {
      const auto v = hn::Sub(hn::LoadU(d, rows[r] + i), m);
      a = hn::MulAdd(v, v, a);
    }
    hn::StoreU(a, d, acc + i);
  }
  for (; i < n; ++i)
    for (int r = 0; r < count; ++r) acc[i] += (rows[r][i] - mean[i]) * (rows[r][i] - mean[i]);
}

float DeviationFloat(const float* x, int64_t n, float mean) { return deviation(x, n, mean); }
double DeviationDouble(const double* x, int64_t n, double mean) { return deviation(x, n, mean); }
void ColumnsFloat(const float* const* rows, int count, int64_t n, const float* mean, float* acc) {
  deviation_columns(rows, count, n, mean, acc);
}
void ColumnsDouble(const double* const* rows, int count, int64_t n, const double* mean, double* acc) {
  deviation_columns(rows, count, n, mean, acc);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(DeviationFloat);
HWY_EXPORT(DeviationDouble);
HWY_EXPORT(ColumnsFloat);
HWY_EXPORT(ColumnsDouble);
template <> float squared_deviation<float>(const float* x, int64_t n, float mean) {
  return HWY_DYNAMIC_DISPATCH(DeviationFloat)(x, n, mean);
}
template <> double squared_deviation<double>(const double* x, int64_t n, double mean) {
  return HWY_DYNAMIC_DISPATCH(DeviationDouble)(x, n, mean);
}
template <>
void squared_deviation_columns<float>(const float* const* rows, int count, int64_t n, const float* mean, float* acc) {
  HWY_DYNAMIC_DISPATCH(ColumnsFloat)(rows, count, n, mean, acc);
}
template <>
void squared_deviation_columns<double>(const double* const* rows, int count, int64_t n, const double* mean,
                                       double* acc) {
  HWY_DYNAMIC_DISPATCH(ColumnsDouble)(rows, count, n, mean, acc);
}
}  // namespace strata::cpu
#endif
