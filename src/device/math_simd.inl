// The functions of math_scalar.inl for Highway vectors of float and double; see math.h.
#include "device/math_small_ints.inl"

namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
concept Vec = !std::is_arithmetic_v<V>;
template <class V> using D = hn::DFromV<V>;
template <class V> using Lane = hn::TFromV<V>;
template <class V> constexpr bool kF32 = sizeof(Lane<V>) == 4;
template <class V> using MaskOf = decltype(hn::Eq(V(), V()));

// --- arithmetic, masks, rounding ------------------------------------------------------------------------------------
template <Vec V> STRATA_FN V like(V, double c) { return hn::Set(D<V>(), static_cast<Lane<V>>(c)); }
template <Vec V> STRATA_FN V number(V, Lane<V> c) { return hn::Set(D<V>(), c); }
template <Vec V> STRATA_FN V add(V a, V b) { return hn::Add(a, b); }
template <Vec V> STRATA_FN V sub(V a, V b) { return hn::Sub(a, b); }
template <Vec V> STRATA_FN V mul(V a, V b) { return hn::Mul(a, b); }
template <Vec V> STRATA_FN V neg(V a) { return hn::Neg(a); }
template <Vec V> STRATA_FN V fma(V a, V b, V c) { return hn::MulAdd(a, b, c); }
template <class M, Vec V> STRATA_FN V select(M m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
template <class M, Vec V> STRATA_FN V truth(M m, V x) { return hn::IfThenElseZero(m, like(x, 1)); }
template <class M> STRATA_FN M both(M a, M b) { return hn::And(a, b); }
template <class M> STRATA_FN M either(M a, M b) { return hn::Or(a, b); }
template <class M> STRATA_FN M invert(M a) { return hn::Not(a); }
template <Vec V> STRATA_FN auto nonzero(V x) {
  return hn::Not(hn::Eq(x, hn::Zero(D<V>())));
}  // hn::Ne denies it for NaN
template <Vec V> STRATA_FN auto is_nan(V x) { return hn::IsNaN(x); }
template <Vec V> STRATA_FN auto is_inf(V x) { return hn::Eq(hn::Abs(x), like(x, HUGE_VAL)); }
template <Vec V> STRATA_FN auto sign_bit(V x) { return hn::Lt(hn::CopySign(like(x, 1), x), hn::Zero(D<V>())); }
template <Vec V> STRATA_FN V abs(V x) { return hn::Abs(x); }
template <Vec V> STRATA_FN V floor(V x) { return hn::Floor(x); }
template <Vec V> STRATA_FN V ceil(V x) { return hn::Ceil(x); }
template <Vec V> STRATA_FN V trunc(V x) { return hn::Trunc(x); }
template <Vec V> STRATA_FN V rint(V x) { return hn::Round(x); }
template <Vec V> STRATA_FN V copysign(V x, V s) { return hn::CopySign(x, s); }
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128  // hn::Max(b, a) is b > a ? b : a, so a if one is NaN; other CPUs differ
template <Vec V> STRATA_FN V max(V a, V b) { return select(is_nan(b), b, hn::Max(b, a)); }
template <Vec V> STRATA_FN V min(V a, V b) { return select(is_nan(b), b, hn::Min(b, a)); }
#else
template <Vec V> STRATA_FN V max(V a, V b) { return select(either(hn::Lt(a, b), is_nan(b)), b, a); }
template <Vec V> STRATA_FN V min(V a, V b) { return select(either(hn::Gt(a, b), is_nan(b)), b, a); }
#endif
template <Vec V> STRATA_FN V sqrt(V x) { return hn::Sqrt(x); }
template <Vec V> STRATA_FN V div_trunc(V a, V b) { return hn::Trunc(hn::Div(a, b)); }

// --- lane by lane, for what is rare ---------------------------------------------------------------------------------
template <Vec V, class F> HWY_NOINLINE V each_lane(F f, V x) {
  HWY_ALIGN Lane<V> a[HWY_MAX_BYTES / sizeof(Lane<V>)];
  hn::Store(x, D<V>(), a);
  for (size_t i = 0; i < hn::Lanes(D<V>()); ++i) a[i] = f(a[i]);
  return hn::Load(D<V>(), a);
}
template <Vec V, class F> HWY_NOINLINE V each_lane(F f, V x, V y) {
  HWY_ALIGN Lane<V> a[HWY_MAX_BYTES / sizeof(Lane<V>)], b[HWY_MAX_BYTES / sizeof(Lane<V>)];
  hn::Store(x, D<V>(), a);
  hn::Store(y, D<V>(), b);
  for (size_t i = 0; i < hn::Lanes(D<V>()); ++i) a[i] = f(a[i], b[i]);
  return hn::Load(D<V>(), a);
}
// Keeps the lanes of `good` and computes the others by the scalar function: a result never depends on its neighbours.
template <Vec V, class M, class F> STRATA_FN V or_else(V result, M good, F f, V x) {
  if (HWY_LIKELY(hn::AllTrue(D<V>(), good))) return result;
  return hn::IfThenElse(good, result, each_lane(f, x));
}
template <Vec V, class M, class F> STRATA_FN V or_else(V result, M good, F f, V x, V y) {
  if (HWY_LIKELY(hn::AllTrue(D<V>(), good))) return result;
  return hn::IfThenElse(good, result, each_lane(f, x, y));
}

// --- float functions in double precision: correctly rounded nearly always, at half the speed ------------------------
template <Vec V> STRATA_FN auto lower(V x) {
  return hn::PromoteTo(hn::Rebind<double, hn::Half<D<V>>>(), hn::LowerHalf(x));
}
template <Vec V> STRATA_FN auto upper(V x) {
  const hn::Half<D<V>> half;
  return hn::PromoteTo(hn::Rebind<double, hn::Half<D<V>>>(), hn::UpperHalf(half, x));
}
template <class VF, Vec V> STRATA_FN VF narrow(V low, V high) {
  const hn::Half<D<VF>> half;
  return hn::Combine(D<VF>(), hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}
template <Vec V, class F> STRATA_FN V in_double(F f, V x) {
  if constexpr (kF32<V>) return narrow<V>(f(lower(x)), f(upper(x)));
  else return f(x);
}
template <Vec V, class F> STRATA_FN V in_double(F f, V x, V y) {
  if constexpr (kF32<V>) return narrow<V>(f(lower(x), lower(y)), f(upper(x), upper(y)));
  else return f(x, y);
}

template <Vec V, size_t n> STRATA_FN V horner(V x, const double (&c)[n]) {  // c[0] + c[1] x + …
  V y = like(x, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) y = fma(y, x, like(x, c[i]));
  return y;
}

// The same as two polynomials of x^2, for the even and the odd powers, whose steps do not wait for each other.
template <Vec V, size_t n> STRATA_FN V two_chains(V x, const double (&c)[n]) {
  const V s = hn::Mul(x, x);
  V last = like(x, c[n - 1]), before = like(x, c[n - 2]);
  size_t i = n - 2;
  for (; i >= 2; i -= 2) {
    last = fma(last, s, like(x, c[i - 1]));
    before = fma(before, s, like(x, c[i - 2]));
  }
  if (i == 0) return fma(last, x, before);
  return fma(fma(last, x, before), x, like(x, c[0]));
}

template <Vec V, class F> STRATA_FN V in_double(F f, V x, V y, V z) {
  if constexpr (kF32<V>) return narrow<V>(f(lower(x), lower(y), lower(z)), f(upper(x), upper(y), upper(z)));
  else return f(x, y, z);
}

// --- exponentials ---------------------------------------------------------------------------------------------------
// 2^k for whole k from -127 (which gives 0) to 128 (which gives infinity); float only.
template <Vec V> STRATA_FN V power_of_two(V k) {
  const hn::RebindToSigned<D<V>> di;
  return hn::BitCast(D<V>(), hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, k), hn::Set(di, 127))));
}
// x * 2^k for k from -252 to 254: the factor in two steps, so that subnormal results are right; float only.
template <Vec V> STRATA_FN V scale_by(V x, V k) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (sizeof(V) == 64) return V{_mm512_scalef_ps(x.raw, k.raw)};  // rounds once too: the same bits
#endif
  const hn::RebindToSigned<D<V>> di;
  const auto whole = hn::ConvertTo(di, k), half = hn::ShiftRight<1>(whole), bias = hn::Set(di, 127);
  const V first = hn::BitCast(D<V>(), hn::ShiftLeft<23>(hn::Add(half, bias)));
  return hn::Mul(hn::Mul(x, first), hn::BitCast(D<V>(), hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias))));
}
// x = k ln 2 + r, |r| <= ln 2 / 2; returns e^r - 1. hn::Round rounds to nearest even; float only.
template <Vec V> STRATA_FN V exp_reduced(V x, V& k) {
  k = hn::Round(hn::Mul(x, like(x, 1.44269504088896340736)));
  V r = fma(k, like(x, -0.693145751953125), x);
  r = fma(k, like(x, -1.42860682030941723212e-6), r);
  V p = fma(like(x, 1.0 / 5040), r, like(x, 1.0 / 720));
  p = fma(p, r, like(x, 1.0 / 120));
  p = fma(p, r, like(x, 1.0 / 24));
  p = fma(p, r, like(x, 1.0 / 6));
  p = fma(p, r, like(x, 0.5));
  return fma(hn::Mul(r, r), p, r);
}
// The constant is the first argument of Min and Max, so that a NaN in x propagates.
template <Vec V> STRATA_FN V limit(V x, double low, double high) {
  return hn::Max(like(x, low), hn::Min(like(x, high), x));
}

template <Vec V> STRATA_FN V exp(V x) {
  if constexpr (kF32<V>) {
    V k;
    const V p = exp_reduced(limit(x, -104, 89), k);
    return scale_by(hn::Add(p, like(x, 1)), k);
  } else {  // Highway's Exp returns 0 for NaN and wraps for large arguments
    return select(is_nan(x), x, hn::Exp(D<V>(), hn::Min(x, like(x, 1000))));
  }
}
// exp for sums and quotients, where subnormal results count as 0 and those above 2.4e38 as infinite.
template <Vec V> STRATA_FN V exp_coarse(V x) {
  if constexpr (!kF32<V>) return exp(x);
  else {
    V k;
    const V p = exp_reduced(limit(x, -88, 89), k);
    return hn::Mul(hn::Add(p, like(x, 1)), power_of_two(k));  // an infinite power times p < 0 must not be added to it
  }
}

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; double only.
template <Vec V> STRATA_FN V exp_remainder(V r) {
  constexpr double p[] = {
    0.5,          1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,        1.0 / 5040,       1.0 / 40320,
    1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};
  return horner(r, p);
}
constexpr double kLog2 = 0.693147180369123816490, kLog2Rest = 1.90821492927058770002e-10;  // k * kLog2 is exact
// x = k ln 2 + r; returns e^r - 1.
template <Vec V> STRATA_FN V expm1_reduced(V x, V& k) {
  if constexpr (kF32<V>) {
    return exp_reduced(x, k);
  } else {
    k = hn::Round(hn::Mul(x, like(x, 1.44269504088896340736)));
    V r = fma(k, like(x, -kLog2), x);
    r = fma(k, like(x, -kLog2Rest), r);
    return fma(hn::Mul(r, r), exp_remainder(r), r);
  }
}
// 2^k for whole k whose power is a normal number.
template <Vec V> STRATA_FN V normal_power_of_two(V k) {
  if constexpr (kF32<V>) {
    return power_of_two(k);
  } else {  // AVX2 has no conversion from double to int64: take the integer from the mantissa of k + 1.5 * 2^52
    const hn::RebindToSigned<D<V>> di;
    const V magic = like(k, 6755399441055744.0);
    const auto whole = hn::Sub(hn::BitCast(di, hn::Add(k, magic)), hn::BitCast(di, magic));
    return hn::BitCast(D<V>(), hn::ShiftLeft<52>(hn::Add(whole, hn::Set(di, int64_t{1023}))));
  }
}
// expm1 of moderate arguments (x <= 88 in float, 700 in double). e^x - 1 = 2^k (e^r - 1) + (2^k - 1): both terms are accurate.
template <Vec V> STRATA_FN V expm1_moderate(V x) {
  V k;
  const V p = expm1_reduced(x, k), scale = normal_power_of_two(k);
  return fma(scale, p, hn::Sub(scale, like(x, 1)));
}
// The same with half the scale, which does not overflow before the result does.
template <Vec V> STRATA_FN V expm1(V x) {
  V k;
  const V p = expm1_reduced(limit(x, -40, kF32<V> ? 89 : 710), k);
  const V half = normal_power_of_two(hn::Sub(k, like(x, 1)));
  const V result = hn::Mul(like(x, 2), fma(half, p, hn::Sub(half, like(x, 0.5))));
  return select(hn::Eq(x, hn::Zero(D<V>())), x, result);  // keeps -0
}
template <Vec V> STRATA_FN V exp2(V x) {
  if constexpr (kF32<V>) {  // (2^f - 1) / f: a fit at Chebyshev nodes of [-1/2, 1/2], relative error 3e-10
    constexpr double p[] = {0.6931471805599453,   0.24022650922288757,   0.055504108839096185,  0.009618056678524637,
                            0.001333350238616277, 0.0001546144469856913, 1.5297323760701075e-05};
    const V z = limit(x, -152, 129), k = hn::Round(z), f = hn::Sub(z, k);
    return scale_by(fma(f, horner(f, p), like(x, 1)), k);
  } else return each_lane([](auto v) { return exp2(v); }, x);
}
// 2^t in double for |t| <= 1000, for float results: relative error 5e-12 (a fit at Chebyshev nodes).
template <Vec V> STRATA_FN V exp2_wide(V t) {
  constexpr double p[] = {0.6931471805568324,    0.24022650695888503,    0.055504109063258665,   0.00961812913523614,
                          0.0013333478473685416, 0.00015403475186530786, 1.5303700711365693e-05, 1.325080551750225e-06};
  const V k = hn::Round(t), g = hn::Sub(t, k);
  return hn::Mul(fma(g, horner(g, p), like(t, 1)), normal_power_of_two(k));
}
template <Vec V> STRATA_FN V sigmoid(V x) {
  const V one = like(x, 1);
  return hn::Div(one, hn::Add(one, exp_coarse(neg(x))));
}
template <Vec V> STRATA_FN V tanh(V x) {
  const V a = hn::Abs(x), y = expm1_moderate(hn::Min(like(x, 44), hn::Add(a, a)));
  return hn::CopySign(hn::Div(y, hn::Add(y, like(x, 2))), x);
}
template <Vec V> STRATA_FN V sinh(V x) {
  return in_double(
    [](auto v) {
      const auto a = hn::Abs(v), y = expm1_moderate(hn::Min(a, like(v, 700))), half = exp(hn::Mul(a, like(v, 0.5)));
      const auto small = hn::Mul(like(v, 0.5), hn::Add(y, hn::Div(y, hn::Add(y, like(v, 1)))));
      const auto result = select(hn::Gt(a, like(v, 20)), hn::Mul(hn::Mul(like(v, 0.5), half), half), small);
      return select(is_nan(v), v, hn::CopySign(result, v));
    },
    x);
}
template <Vec V> STRATA_FN V cosh(V x) {
  return in_double(
    [](auto v) {
      const auto half = exp(hn::Mul(hn::Abs(v), like(v, 0.5))), whole = hn::Mul(half, half), h = like(v, 0.5);
      return select(is_nan(v), v, hn::Add(hn::Mul(hn::Mul(h, half), half), hn::Div(h, whole)));
    },
    x);
}

// --- logarithms -----------------------------------------------------------------------------------------------------
// Cases that Highway's logarithms do not define: zero, negative numbers, infinity, NaN.
template <Vec V> STRATA_FN V log_edges(V x, V result, double pole) {
  const V at = like(x, pole);
  result = select(hn::Eq(x, at), like(x, -HUGE_VAL), result);
  result = select(hn::Lt(x, at), like(x, NAN), result);
  return select(either(hn::Eq(x, like(x, HUGE_VAL)), is_nan(x)), x, result);
}
template <Vec V> STRATA_FN V log(V x) { return log_edges(x, hn::Log(D<V>(), x), 0); }
// |x| = (1 + f) 2^e with 1 + f between the square roots of 1/2 and 2; float only.
template <Vec V> STRATA_FN void split(V x, V& f, V& e) {
  const hn::RebindToSigned<D<V>> di;
  const auto tiny = hn::Lt(x, like(x, 1.17549435e-38));  // subnormal numbers are normalized first
  const V normal = select(tiny, hn::Mul(x, like(x, 0x1p25)), x);
  const auto root = hn::Set(di, 0x3f3504f3);
  const auto shifted = hn::Sub(hn::BitCast(di, normal), root);
  e = hn::Sub(hn::ConvertTo(D<V>(), hn::ShiftRight<23>(shifted)), select(tiny, like(x, 25), hn::Zero(D<V>())));
  f = hn::Sub(hn::BitCast(D<V>(), hn::Add(hn::And(shifted, hn::Set(di, 0x7fffff)), root)), like(x, 1));
}
// log(1 + f) of a double f in that range: a fit at Chebyshev nodes, relative error 2e-11.
template <Vec V> STRATA_FN V log1p_reduced(V f) {
  constexpr double p[] = {0.9999999999874489,  -0.5000000003599459,  0.3333333425021362,  -0.24999992721296602,
                          0.19999888039174563, -0.1666702484576237,  0.1429081530848606,  -0.12495433105134049,
                          0.11005986246858784, -0.09945965040928413, 0.10047473396788073, -0.0980478354228369,
                          0.0523586308726839};
  return hn::Mul(f, horner(f, p));
}
template <Vec V> STRATA_FN V log1p(V x) {
  return log_edges(x, select(hn::Eq(x, hn::Zero(D<V>())), x, hn::Log1p(D<V>(), x)), -1);
}
template <Vec V> STRATA_FN V log1p_exp_neg_abs(V x) { return hn::Log1p(D<V>(), exp_coarse(hn::Neg(hn::Abs(x)))); }

// --- circular and hyperbolic functions ------------------------------------------------------------------------------
// Highway reduces arguments by multiples of pi exactly only while the multiple is small.
template <Vec V> STRATA_FN auto reducible(V x) { return hn::Lt(hn::Abs(x), like(x, kF32<V> ? 20000 : 1e7)); }
template <Vec V> STRATA_FN V sin(V x) {
  const auto good = reducible(x);
  const V y = hn::Sin(D<V>(), hn::IfThenElseZero(good, x));
  return or_else(
    select(hn::Eq(x, hn::Zero(D<V>())), x, y), good, [](auto v) { return sin(v); }, x);  // keeps -0
}
template <Vec V> STRATA_FN V cos(V x) {
  const auto good = reducible(x);
  const V size = hn::Abs(x), y = hn::Cos(D<V>(), hn::IfThenElseZero(good, x));
  return or_else(
    select(hn::Lt(size, like(x, kF32<V> ? 1e-4 : 1e-8)), like(x, 1), y), good, [](auto v) { return cos(v); }, x);
}
// log(|v| + sqrt(v^2 + c)) through log1p near zero; beyond 1e8 the square is all there is.
template <Vec V> STRATA_FN V asinh(V x) {
  return in_double(
    [](auto v) {
      const auto a = hn::Abs(v), one = like(v, 1), square = hn::Mul(a, a);
      const auto small = hn::Add(a, hn::Div(square, hn::Add(one, hn::Sqrt(hn::Add(square, one)))));
      const auto y = select(hn::Gt(a, like(v, 1e8)), hn::Add(log(a), like(v, 0.69314718055994530942)), log1p(small));
      return select(is_nan(v), v, hn::CopySign(y, v));
    },
    x);
}
template <Vec V> STRATA_FN V acosh(V x) {
  return in_double(
    [](auto v) {
      const auto one = like(v, 1), t = hn::Sub(v, one), root = hn::Sqrt(hn::Mul(t, hn::Add(v, one)));
      const auto y =
        select(hn::Gt(v, like(v, 1e8)), hn::Add(log(v), like(v, 0.69314718055994530942)), log1p(hn::Add(t, root)));
      return select(hn::Lt(v, one), like(v, NAN), y);
    },
    x);
}
template <Vec V> STRATA_FN V atanh_wide(V x) {
  return in_double(
    [](auto v) {
      const auto a = hn::Abs(v), one = like(v, 1);
      auto y = a;
      if constexpr (kF32<V>) {  // 1 + a and 1 - a are exact in double; near zero two terms of the series are enough
        const auto ratio = hn::Div(hn::Add(one, a), hn::Sub(one, a));
        const auto series = fma(hn::Mul(a, hn::Mul(a, a)), like(v, 1.0 / 3), a);
        const auto far = hn::Mul(like(v, 0.5), hn::Log(D<decltype(v)>(), ratio));
        y = select(hn::Lt(a, like(v, 1e-3)), series, select(hn::Eq(a, one), like(v, HUGE_VAL), far));
      } else {
        y = hn::Mul(like(v, 0.5), log1p(hn::Div(hn::Add(a, a), hn::Sub(one, a))));
      }
      return select(is_nan(v), v, hn::CopySign(select(hn::Gt(a, one), like(v, NAN), y), v));
    },
    x);
}

// --- the C library, lane by lane ------------------------------------------------------------------------------------
template <Vec V> STRATA_FN V ldexp(V a, V b) {
  if constexpr (kF32<V>)  // exact in double, then rounded once
    return in_double([](auto x, auto k) { return hn::Mul(x, normal_power_of_two(limit(k, -400, 400))); }, a, b);
  else return each_lane([](auto x, auto y) { return ldexp(x, y); }, a, b);
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata

#include "device/math_float.inl"

#include "device/math_erf.inl"
#include "device/math_gamma.inl"
#include "device/math_pairs.inl"
