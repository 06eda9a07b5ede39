#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce/moments_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/reduce/moments.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T> HWY_INLINE Deviations<T> around(const T* x, int64_t n, T centre) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, centre);
  auto a = hn::Zero(d), b = a, c = a, e = a, s = a, t = a;
  int64_t i = 0;
  const auto add = [&](auto& sum, auto& acc, int64_t at) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, x + at), m);
    sum = hn::Add(sum, v);
    acc = hn::MulAdd(v, v, acc);
  };
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    add(s, a, i);
    add(t, b, i + lanes);
    add(s, c, i + 2 * lanes);
    add(t, e, i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) add(s, a, i);
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s, t)));
  T squares = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) {
    const T v = x[i] - centre;
    sum += v;
    squares += v * v;
  }
  return {sum, squares};
}

template <class T>
HWY_INLINE void around_columns(const T* const* rows, int count, int64_t n, const T* centre, T* sum, T* squares) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto m = hn::LoadU(d, centre + i);
    auto s = hn::Zero(d), a = s;
    for (int r = 0; r < count; ++r) {
      const auto v = hn::Sub(hn::LoadU(d, rows[r] + i), m);
      s = hn::Add(s, v);
      a = hn::MulAdd(v, v, a);
    }
    hn::StoreU(s, d, sum + i);
    hn::StoreU(a, d, squares + i);
  }
  for (; i < n; ++i) {
    sum[i] = squares[i] = 0;
    for (int r = 0; r < count; ++r) {
      const T v = rows[r][i] - centre[i];
      sum[i] += v;
      squares[i] += v * v;
    }
  }
}

Deviations<float> AroundFloat(const float* x, int64_t n, float centre) { return around(x, n, centre); }
Deviations<double> AroundDouble(const double* x, int64_t n, double centre) { return around(x, n, centre); }
void ColumnsFloat(const float* const* rows, int count, int64_t n, const float* centre, float* sum, float* squares) {
  around_columns(rows, count, n, centre, sum, squares);
}
void ColumnsDouble(const double* const* rows, int count, int64_t n, const double* centre, double* sum,
                   double* squares) {
  around_columns(rows, count, n, centre, sum, squares);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(AroundFloat);
HWY_EXPORT(AroundDouble);
HWY_EXPORT(ColumnsFloat);
HWY_EXPORT(ColumnsDouble);
template <> Deviations<float> deviations<float>(const float* x, int64_t n, float centre) {
  return HWY_DYNAMIC_DISPATCH(AroundFloat)(x, n, centre);
}
template <> Deviations<double> deviations<double>(const double* x, int64_t n, double centre) {
  return HWY_DYNAMIC_DISPATCH(AroundDouble)(x, n, centre);
}
template <>
void deviation_columns<float>(const float* const* rows, int count, int64_t n, const float* centre, float* sum,
                              float* squares) {
  HWY_DYNAMIC_DISPATCH(ColumnsFloat)(rows, count, n, centre, sum, squares);
}
template <>
void deviation_columns<double>(const double* const* rows, int count, int64_t n, const double* centre, double* sum,
                               double* squares) {
  HWY_DYNAMIC_DISPATCH(ColumnsDouble)(rows, count, n, centre, sum, squares);
}
}  // namespace strata::cpu
#endif
