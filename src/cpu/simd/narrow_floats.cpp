// The narrow floats. Highway's own conversion to bfloat16 truncates, so rounding to nearest even is done on the bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/narrow_floats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runs.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void HalfToFloat(const Half* src, float* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(src) + i)), d, dst + i);
#endif
  for (; i < n; ++i) dst[i] = static_cast<float>(src[i]);
}

void FloatToHalf(const float* src, Half* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, src + i)), dh, reinterpret_cast<hwy::float16_t*>(dst) + i);
#endif
  for (; i < n; ++i) dst[i] = Half(src[i]);
}

void BfloatToFloat(const BFloat16* src, float* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dn;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto wide = hn::PromoteTo(du, hn::LoadU(dn, reinterpret_cast<const uint16_t*>(src) + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(wide)), d, dst + i);
  }
#endif
  for (; i < n; ++i) dst[i] = static_cast<float>(src[i]);
}

void FloatToBfloat(const float* src, BFloat16* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dn;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, src + i);
    const auto u = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1u));
    const auto rounded = hn::Add(u, hn::Add(hn::Set(du, 0x7fffu), odd));
    const auto quiet = hn::Or(u, hn::Set(du, 0x400000u));
    const auto bits =
      hn::ShiftRight<16>(hn::BitCast(du, hn::IfThenElse(hn::IsNaN(x), hn::BitCast(d, quiet), hn::BitCast(d, rounded))));
    hn::StoreU(hn::DemoteTo(dn, hn::BitCast(di, bits)), dn, reinterpret_cast<uint16_t*>(dst) + i);
  }
#endif
  for (; i < n; ++i) dst[i] = BFloat16(src[i]);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {
HWY_EXPORT(HalfToFloat);
HWY_EXPORT(FloatToHalf);
HWY_EXPORT(BfloatToFloat);
HWY_EXPORT(FloatToBfloat);
}  // namespace
void cpu::half_to_float(const Half* src, float* dst, size_t n) { HWY_DYNAMIC_DISPATCH(HalfToFloat)(src, dst, n); }
void cpu::float_to_half(const float* src, Half* dst, size_t n) { HWY_DYNAMIC_DISPATCH(FloatToHalf)(src, dst, n); }
void cpu::bfloat_to_float(const BFloat16* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(BfloatToFloat)(src, dst, n);
}
void cpu::float_to_bfloat(const float* src, BFloat16* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(FloatToBfloat)(src, dst, n);
}
}  // namespace strata
#endif
