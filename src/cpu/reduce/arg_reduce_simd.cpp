#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce/arg_reduce_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/reduce/arg_reduce.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T> HWY_INLINE int64_t find(const T* x, int64_t n, T value) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool nan = value != value;
  const auto wanted = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    auto hit = hn::Eq(v, wanted);
    if constexpr (!std::is_integral_v<T>)
      if (nan) hit = hn::IsNaN(v);
    const intptr_t at = hn::FindFirstTrue(d, hit);
    if (at >= 0) return i + at;
  }
  for (; i < n; ++i)
    if (x[i] == value || (nan && x[i] != x[i])) return i;
  return n;
}

template <bool kLargest, class T>
HWY_INLINE void columns(const T* rows, int64_t stride, Place<T> first, int count, int64_t n, T* best, Place<T>* place) {
  const hn::ScalableTag<T> d;
  const hn::ScalableTag<Place<T>> dp;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto b = hn::LoadU(d, best + i);
    auto p = hn::LoadU(dp, place + i);
    for (int r = 0; r < count; ++r) {
      const auto v = hn::LoadU(d, rows + r * stride + i);
      auto take = kLargest ? hn::Gt(v, b) : hn::Lt(v, b);
      if constexpr (!std::is_integral_v<T>) take = hn::Or(take, hn::AndNot(hn::IsNaN(b), hn::IsNaN(v)));
      b = hn::IfThenElse(take, v, b);
      p = hn::IfThenElse(hn::RebindMask(dp, take), hn::Set(dp, static_cast<Place<T>>(first + r)), p);
    }
    hn::StoreU(b, d, best + i);
    hn::StoreU(p, dp, place + i);
  }
  for (; i < n; ++i)
    for (int r = 0; r < count; ++r) {
      const T v = rows[r * stride + i];
      const bool better = kLargest ? v > best[i] : v < best[i];
      if (better || (v != v && best[i] == best[i])) {
        best[i] = v;
        place[i] = static_cast<Place<T>>(first + r);
      }
    }
}

#define STRATA_ARG_KERNELS(Name, T)                                                                              \
  int64_t Find##Name(const T* x, int64_t n, T value) { return find(x, n, value); }                               \
  void Columns##Name(bool largest, const T* rows, int64_t stride, Place<T> first, int count, int64_t n, T* best, \
                     Place<T>* place) {                                                                          \
    if (largest) columns<true>(rows, stride, first, count, n, best, place);                                      \
    else columns<false>(rows, stride, first, count, n, best, place);                                             \
  }
STRATA_ARG_KERNELS(Float, float)
STRATA_ARG_KERNELS(Double, double)
STRATA_ARG_KERNELS(Int, int64_t)
#undef STRATA_ARG_KERNELS

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
#define STRATA_ARG_KERNELS(Name, T)                                                                               \
  HWY_EXPORT(Find##Name);                                                                                         \
  HWY_EXPORT(Columns##Name);                                                                                      \
  template <> int64_t find_value<T>(const T* x, int64_t n, T value) {                                             \
    return HWY_DYNAMIC_DISPATCH(Find##Name)(x, n, value);                                                         \
  }                                                                                                               \
  template <>                                                                                                     \
  void arg_columns<T>(bool largest, const T* rows, int64_t stride, Place<T> first, int count, int64_t n, T* best, \
                      Place<T>* place) {                                                                          \
    HWY_DYNAMIC_DISPATCH(Columns##Name)(largest, rows, stride, first, count, n, best, place);                     \
  }
STRATA_ARG_KERNELS(Float, float)
STRATA_ARG_KERNELS(Double, double)
STRATA_ARG_KERNELS(Int, int64_t)
#undef STRATA_ARG_KERNELS
}  // namespace strata::cpu
#endif
