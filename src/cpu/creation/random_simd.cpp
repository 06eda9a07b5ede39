// The arithmetic of random numbers for each SIMD target: Philox blocks and Box-Muller pairs. The pairs are the formula of device/normal.h, operation by operation, and this file is compiled
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

// Both halves of the products of 32-bit lanes with a constant.
using D32 = hn::ScalableTag<uint32_t>;
using V32 = hn::Vec<D32>;
HWY_INLINE void multiply(V32 v, V32 by, V32& high, V32& low) {
  const D32 d;
  const hn::RepartitionToWide<D32> wide;
  const auto even = hn::MulEven(v, by);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, v))), by);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}
// The words of as many blocks as there are lanes.
HWY_INLINE void philox_lanes(uint64_t seed, uint64_t first, uint32_t* w) {
  const D32 d;
  HWY_ALIGN uint32_t counter[2][hn::MaxLanes(D32())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    counter[0][i] = static_cast<uint32_t>(first + i);
    counter[1][i] = static_cast<uint32_t>((first + i) >> 32);
  }
  V32 a = hn::Load(d, counter[0]), b = hn::Load(d, counter[1]), c = hn::Zero(d), e = c;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    V32 p_high, p_low, q_high, q_low;
    multiply(a, hn::Set(d, 0xD2511F53u), p_high, p_low);
    multiply(c, hn::Set(d, 0xCD9E8D57u), q_high, q_low);
    a = hn::Xor(hn::Xor(q_high, b), hn::Set(d, k0));
    c = hn::Xor(hn::Xor(p_high, e), hn::Set(d, k1));
    b = q_low;
    e = p_low;
  }
  hn::StoreInterleaved4(a, b, c, e, d, w);
}
#endif

void PhiloxWords(uint64_t seed, uint64_t first, uint32_t* w) {
#if HWY_TARGET != HWY_SCALAR
  const size_t lanes = hn::Lanes(D32());
  for (size_t i = 0; i < kPhiloxBatch; i += lanes) philox_lanes(seed, first + i, w + 4 * i);
#else
  for (size_t i = 0; i < kPhiloxBatch; ++i) {
    const PhiloxBlock block = philox(seed, first + i);
    for (int k = 0; k < 4; ++k) w[4 * i + static_cast<size_t>(k)] = block.word[k];
  }
#endif
}

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
