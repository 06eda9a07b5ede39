// The arithmetic of random numbers for each SIMD target: Philox blocks and Box-Muller pairs. The pairs are the formula of
// device/normal.h, operation by operation: the bits are the same as on devices. Targets without fma use the formula
// itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/creation/random_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <initializer_list>

#include "cpu/creation/random_words.h"
#include "device/normal.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR && HWY_NATIVE_FMA
#define STRATA_NORMAL_VECTORS 1
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using DF = hn::Rebind<float, D>;
using VF = hn::Vec<DF>;

HWY_INLINE V number(double v) { return hn::Set(D(), v); }
HWY_INLINE VF number(float v) { return hn::Set(DF(), v); }
HWY_INLINE V wide(VF v) { return hn::PromoteTo(D(), v); }
// first + s * (second + s * (…)); the coefficients are given from the last to the first.
HWY_INLINE V polynomial(V s, std::initializer_list<double> coefficients) {
  const double* c = coefficients.begin();
  V sum = number(*c++);
  while (c != coefficients.end()) sum = hn::MulAdd(sum, s, number(*c++));
  return sum;
}

HWY_INLINE V minus_two_logs_of(VF y) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const auto root = hn::Set(di, int32_t{0x3f3504f3});
  const auto shifted = hn::Sub(hn::BitCast(di, y), root);
  const V e = hn::PromoteTo(D(), hn::ShiftRight<23>(shifted));
  const VF m = hn::BitCast(d, hn::Add(hn::And(shifted, hn::Set(di, int32_t{0x007fffff})), root));
  const V below = hn::Add(wide(m), number(1.0)), guess = wide(hn::Div(number(1.0F), hn::Add(m, number(1.0F))));
  const V inverse = hn::MulAdd(guess, hn::NegMulAdd(below, guess, number(1.0)), guess);
  const V f = hn::Mul(wide(hn::Sub(m, number(1.0F))), inverse), s = hn::Mul(f, f);
  const V series = polynomial(s, {1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  return hn::MulAdd(hn::Mul(number(-4.0), f), series, hn::Mul(e, number(-1.38629436111989061884)));
}

HWY_INLINE void normal_pairs(VF u, VF v, VF& even, VF& odd) {
  const DF d;
  const V square = minus_two_logs_of(hn::Sub(number(1.0F), u));
  const VF near = hn::Sqrt(hn::Max(hn::DemoteTo(d, square), number(1e-30F))), half = hn::Div(number(0.5F), near);
  const V root = wide(near), radius = hn::MulAdd(hn::NegMulAdd(root, root, square), wide(half), root);
  const VF turn = hn::Mul(number(4.0F), v), quarter = hn::Floor(hn::Add(turn, number(0.5F)));  // 0 to 4
  const V x = hn::Mul(wide(hn::Sub(turn, quarter)), number(1.57079632679489661923)), s = hn::Mul(x, x);
  const V sine = hn::Mul(polynomial(s, {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0}), x);
  const V cosine = polynomial(s, {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0});
  const VF along = hn::DemoteTo(d, hn::Mul(radius, cosine)), across = hn::DemoteTo(d, hn::Mul(radius, sine));
  const auto first = hn::Eq(quarter, number(1.0F)), second = hn::Eq(quarter, number(2.0F)),
             third = hn::Eq(quarter, number(3.0F));
  const auto swap = hn::Or(first, third);
  const VF c = hn::IfThenElse(swap, across, along), e = hn::IfThenElse(swap, along, across);
  even = hn::IfThenElse(hn::Or(first, second), hn::Neg(c), c);
  odd = hn::IfThenElse(hn::Or(second, third), hn::Neg(e), e);
}
#endif

#if HWY_TARGET != HWY_SCALAR
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

void DropFloats(const uint32_t* w, const Drop& drop, const float* x, float* out, bool* kept, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D32 d;
  const hn::RebindToFloat<D32> df;
  const hn::RebindToSigned<D32> ds;
  const hn::Rebind<uint8_t, D32> bytes;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const V32 last = hn::Set(d, drop.last), always = hn::Set(d, drop.all ? ~0u : 0u);
  for (; i + step <= n; i += step) {
    const V32 keep = hn::Or(hn::VecFromMask(d, hn::Gt(hn::LoadU(d, w + i), last)), always);
    const auto scaled = hn::Mul(hn::LoadU(df, x + i), hn::Set(df, drop.scale));
    hn::StoreU(hn::IfThenElseZero(hn::MaskFromVec(hn::BitCast(df, keep)), scaled), df, out + i);
    hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(ds, hn::And(keep, hn::Set(d, 1u)))), bytes,
               reinterpret_cast<uint8_t*>(kept + i));
  }
#endif
  for (; i < n; ++i) {
    kept[i] = w[i] > drop.last || drop.all;
    out[i] = kept[i] ? x[i] * drop.scale : 0;
  }
}

void NormalPairs(float* u, int64_t n) {
  int64_t i = 0;
#ifdef STRATA_NORMAL_VECTORS
  const DF d;
  const int64_t step = 2 * static_cast<int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) {
    VF a, b;
    hn::LoadInterleaved2(d, u + i, a, b);
    normal_pairs(a, b, a, b);
    hn::StoreInterleaved2(a, b, d, u + i);
  }
#undef STRATA_NORMAL_VECTORS
#endif
  for (; i < n; i += 2) normal_pair(u[i], u[i + 1], u[i], u[i + 1]);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(PhiloxWords);
HWY_EXPORT(DropFloats);
HWY_EXPORT(NormalPairs);
void philox_words(uint64_t seed, uint64_t first, uint32_t* w) { HWY_DYNAMIC_DISPATCH(PhiloxWords)(seed, first, w); }
void drop_floats(const uint32_t* w, const Drop& drop, const float* x, float* out, bool* kept, int64_t n) {
  HWY_DYNAMIC_DISPATCH(DropFloats)(w, drop, x, out, kept, n);
}
void normal_pairs(float* u, int64_t n) { HWY_DYNAMIC_DISPATCH(NormalPairs)(u, n); }
}  // namespace strata::cpu
#endif
