// Modified Bessel functions of the first kind, of orders 0 and 1, as they are and times exp(-|x|).
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_BESSEL)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_BESSEL
#endif
#include "device/math_chebyshev.inl"
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

namespace bessel {
// For a >= 0: one series in a / 4 - 1 up to 8, and one in 16 / a - 1 beyond, where the function falls like 1 / sqrt(a).
template <class T, class V, int n, int m>
STRATA_FN V series(V a, V factor, const double (&small)[n], const double (&large)[m]) {
  const V eight = math::like(a, 8), one = math::like(a, 1), far = math::max(a, eight);
  const V near_sum = factor * math::chebyshev<T, 21>(math::min(a, eight) * math::like(a, 0.25) - one, small);
  const V far_sum = math::chebyshev<T, 7>(math::like(a, 16) / far - one, large) / math::sqrt(far);
  return math::select(a > eight, far_sum, math::select(math::is_nan(a), a, near_sum));
}
// exp(-a) I0(a) and exp(-a) I1(a), for a >= 0.
template <class T, class V> STRATA_FN V scaled_order_0(V a) {
  constexpr double small[] = {
    0.338397637204738042,     -0.304682672343198399,    0.171620901522208775,    -0.0949010970480476444,
    0.0493052842396707085,    -0.0237374148058994688,   0.0105464603945949983,   -0.00432430999505057594,
    0.00163947561694133580,   -0.000576375574538582366, 0.000188502885095841656, -0.0000575419501008210370,
    0.0000164484480707288971, -4.41673835845875056e-6,  1.11738753912010372e-6,  -2.67079385394061173e-7,
    6.04699502254191895e-8,   -1.30002500998624804e-8,  2.65982372468238665e-9,  -5.18979560163526291e-10,
    9.67580903537323691e-11,  -1.72682629144155571e-11, 2.95505266312963983e-12, -4.85644678311192946e-13,
    7.67618549860493562e-14,  -1.16853328779934517e-14, 1.71539128555513303e-15, -2.43127984654795469e-16,
    3.33079451882223810e-17};
  constexpr double large[] = {
    0.402245205507054416,     0.00336911647825569409,   0.0000688975834691682398, 2.89137052083475648e-6,
    2.04891858946906374e-7,   2.26666899049817806e-8,   3.39623202570838635e-9,   4.94060238822496959e-10,
    1.18891471078464383e-11,  -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
    7.18012445138366623e-13,  3.85277838274214270e-13,  1.54008621752140983e-14,  -4.15056934728722209e-14,
    -9.55484669882830765e-15, 3.81168066935262242e-15,  1.77256013305652638e-15,  -3.42548561967721913e-16,
    -2.82762398051658348e-16, 3.46122286769746109e-17,  4.46562142029676000e-17};
  return series<T>(a, math::like(a, 1), small, large);
}
template <class T, class V> STRATA_FN V scaled_order_1(V a) {
  constexpr double small[] = {
    // of the function over a
    0.126293593221816827,    -0.176416518357834055,    0.102643658689847095,     -0.0529459812080949914,
    0.0247264490306265168,   -0.0105640848946261982,   0.00415642294431288816,   -0.00151357245063125315,
    0.000512285956168575773, -0.000161760815825896746, 0.0000478156510755005423, -0.0000132731636560394358,
    3.47025130813767848e-6,  -8.56872026469545474e-7,  2.00329475355213526e-7,   -4.44505912879632808e-8,
    9.38153738649577178e-9,  -1.88724975172282929e-9,  3.62559028155211704e-10,  -6.66348972350202774e-11,
    1.17361862988909016e-11, -1.98397439776494372e-12, 3.22379336594557471e-13,  -5.04218550472791169e-14,
    7.60068429473540693e-15, -1.10559694773538631e-15, 1.55363195773620047e-16,  -2.11142121435816608e-17};
  constexpr double large[] = {
    0.389288117509140060,     -0.00976109749136146841,  -0.000110588938762623716, -3.88256480887769039e-6,
    -2.51223623787020893e-7,  -2.63146884688951951e-8,  -3.83538038596423702e-9,  -5.58974346219658381e-10,
    -1.89749581235054123e-11, 3.25260358301548824e-11,  1.41258074366137813e-11,  2.03562854414708951e-12,
    -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14, 4.27244001671195135e-14,
    1.04202769841288028e-14,  -3.81440307243700780e-15, -1.88035477551078245e-15, 3.30820231092092828e-16,
    2.96262899764595014e-16,  -3.20952592199342396e-17, -4.65030536848935833e-17};
  return series<T>(a, a, small, large);
}
// exp(a) times a function that falls: the exponential alone would overflow first.
template <class V> STRATA_FN V unscaled(V a, V scaled) {
  const V half = math::exp(a * math::like(a, 0.5));
  return math::select(math::is_inf(a), a, half * scaled * half);
}
}  // namespace bessel

template <class T> struct BesselI0 : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const {
    const V a = math::abs(x);
    return bessel::unscaled(a, bessel::scaled_order_0<T>(a));
  }
};
template <class T> struct BesselI0e : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const { return bessel::scaled_order_0<T>(math::abs(x)); }
};
template <class T> struct BesselI1 : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const {
    const V a = math::abs(x);
    return math::copysign(bessel::unscaled(a, bessel::scaled_order_1<T>(a)), x);
  }
};
template <class T> struct BesselI1e : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::copysign(bessel::scaled_order_1<T>(math::abs(x)), x);
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
