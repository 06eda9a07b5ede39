// The arithmetic of random numbers for each SIMD target: Philox blocks over arrays, which the compiler vectorizes, and
// Box-Muller pairs. The pairs are the formula of device/normal.h, operation by operation, and this file is compiled
// without contraction: the bits are the same as on devices.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/creation/random_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/creation/random_words.h"
#include "device/normal.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void PhiloxWords(uint64_t seed, uint64_t first, uint32_t* w) {
  uint32_t a[kPhiloxBatch], b[kPhiloxBatch], c[kPhiloxBatch], d[kPhiloxBatch];
  for (int i = 0; i < kPhiloxBatch; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    a[i] = static_cast<uint32_t>(counter);
    b[i] = static_cast<uint32_t>(counter >> 32);
    c[i] = d[i] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (int i = 0; i < kPhiloxBatch; ++i) {
      const uint64_t p = static_cast<uint64_t>(0xD2511F53u) * a[i], q = static_cast<uint64_t>(0xCD9E8D57u) * c[i];
      a[i] = static_cast<uint32_t>(q >> 32) ^ b[i] ^ k0;
      c[i] = static_cast<uint32_t>(p >> 32) ^ d[i] ^ k1;
      b[i] = static_cast<uint32_t>(q);
      d[i] = static_cast<uint32_t>(p);
    }
  for (int i = 0; i < kPhiloxBatch; ++i) {
    w[4 * i] = a[i];
    w[4 * i + 1] = b[i];
    w[4 * i + 2] = c[i];
    w[4 * i + 3] = d[i];
  }
}

#if HWY_TARGET != HWY_SCALAR
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

HWY_INLINE V number(double v) { return hn::Set(D(), v); }
HWY_INLINE V plus(double a, V b, V c) { return hn::Add(number(a), hn::Mul(b, c)); }

HWY_INLINE V minus_log_of(V y) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto base = hn::Set(di, int64_t{0x3fe6a09e00000000});
  const auto shifted = hn::Sub(hn::BitCast(di, y), base);
  const V e = hn::ConvertTo(d, hn::ShiftRight<52>(shifted));
  const V m = hn::BitCast(d, hn::Add(hn::And(shifted, hn::Set(di, int64_t{0x000fffffffffffff})), base));
  const V f = hn::Div(hn::Sub(m, number(1)), hn::Add(m, number(1))), s = hn::Mul(f, f);
  V series = number(1.0 / 17);
  for (double c : {1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0}) series = plus(c, s, series);
  return hn::Sub(plus(0.0, number(-0.69314718055994530942), e), hn::Mul(hn::Mul(number(2), f), series));
}

HWY_INLINE void normal_pairs(V u, V v, V& even, V& odd) {
  const V radius = hn::Sqrt(hn::Mul(number(2), minus_log_of(hn::Sub(number(1), u))));
  const V turn = hn::Mul(number(4), v), quarter = hn::Floor(hn::Add(turn, number(0.5)));  // 0 to 4
  const V x = hn::Mul(hn::Sub(turn, quarter), number(1.57079632679489661923)), s = hn::Mul(x, x);
  V sine = number(-1.0 / 1307674368000);
  for (double c : {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0})
    sine = plus(c, s, sine);
  sine = hn::Mul(sine, x);
  V cosine = number(1.0 / 20922789888000);
  for (double c :
       {-1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0})
    cosine = plus(c, s, cosine);
  const auto first = hn::Eq(quarter, number(1)), second = hn::Eq(quarter, number(2)),
             third = hn::Eq(quarter, number(3));
  const auto swap = hn::Or(first, third);
  const V c = hn::IfThenElse(swap, sine, cosine), d = hn::IfThenElse(swap, cosine, sine);
  even = hn::Mul(radius, hn::IfThenElse(hn::Or(first, second), hn::Neg(c), c));
  odd = hn::Mul(radius, hn::IfThenElse(hn::Or(second, third), hn::Neg(d), d));
}
#endif

void NormalPairs(float* u, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::Rebind<float, D> df;
  const int64_t step = 2 * static_cast<int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) {
    hn::Vec<decltype(df)> a, b;
    hn::LoadInterleaved2(df, u + i, a, b);
    V even, odd;
    normal_pairs(hn::PromoteTo(d, a), hn::PromoteTo(d, b), even, odd);
    hn::StoreInterleaved2(hn::DemoteTo(df, even), hn::DemoteTo(df, odd), df, u + i);
  }
#endif
  for (; i < n; i += 2) normal_pair(u[i], u[i + 1], u[i], u[i + 1]);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(PhiloxWords);
HWY_EXPORT(NormalPairs);
void philox_words(uint64_t seed, uint64_t first, uint32_t* w) { HWY_DYNAMIC_DISPATCH(PhiloxWords)(seed, first, w); }
void normal_pairs(float* u, int64_t n) { HWY_DYNAMIC_DISPATCH(NormalPairs)(u, n); }
}  // namespace strata::cpu
#endif
