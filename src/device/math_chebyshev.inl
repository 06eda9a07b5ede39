// Chebyshev series, for scalars and vectors. Included by functors/bessel.h and functors/special.h.
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_MATH_CHEBYSHEV)
#ifndef STRATA_SIMD_TARGET
#define STRATA_MATH_CHEBYSHEV
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// c[0] + c[1] T1(t) + c[2] T2(t) + ..., by Clenshaw's recurrence. Floats of type T need only the first `few` terms.
template <class T, int few, class V, int n> STRATA_FN V chebyshev(V t, const double (&c)[n]) {
  constexpr int terms = sizeof(T) == 4 ? few : n;
  static_assert(few <= n);
  const V twice = t + t;
  V next = like(t, 0), sum = like(t, c[terms - 1]);
#ifndef __CUDACC__
#pragma GCC unroll 32
#endif
  for (int k = terms - 2; k > 0; --k) {  // unrolled: the coefficients are then constants of the vector's type
    const V before = fma(twice, sum, like(t, c[k]) - next);
    next = sum;
    sum = before;
  }
  return fma(t, sum, like(t, c[0]) - next);
}

// (1 / 2 + a) exp(a * a) erfc(a) for a >= 0: a series in y = (a - 3) / (a + 3), which is 1 at infinity, or with floats a
// polynomial of y = (a - 2) / (a + 2), relative error 4e-9.
template <class T, class V> STRATA_FN V erfcx_scaled(V a) {
  if constexpr (sizeof(T) == 4) {
    constexpr double p[] = {0.6384891907135147,      -0.04638188138743482,   -0.08301519176315672,
                            0.0820247270697159,      -0.027110133307596897,  -0.004009481539335532,
                            0.0043623038200198035,   0.0006087052960776047,  -0.000732035455558866,
                            -0.00017896022392358967, 0.00011078577530165526, 3.168472918807626e-05,
                            -1.0127994812920027e-05};
    const V y = like(a, 1) - like(a, 4) / (a + like(a, 2));
    V sum = like(a, p[12]);
#ifndef __CUDACC__
#pragma GCC unroll 16
#endif
    for (int k = 11; k >= 0; --k) sum = fma(sum, y, like(a, p[k]));
    return sum;
  } else {
    constexpr double series[] = {
      0.588781287098280023,    0.00267695226980783838,   -0.0468877517114210453,   0.0271832627787216102,
      -0.00948829835392260369, 0.00222671303073135578,   -0.000316776585527657347, 8.83085976158579593e-6,
      6.42076643202833537e-6,  -1.00361428295299572e-6,  -9.03761395207418551e-8,  3.77491417191254641e-8,
      9.42834261919301395e-10, -1.349759524899182e-9,    -7.3003955996955247e-12,  5.18080372298474484e-11,
      7.37857988311736504e-13, -2.13867003219845541e-12, -1.03961246429899499e-13, 9.06725100158848121e-14,
      9.86712787272369417e-15, -3.64397186879633658e-15, -7.58493934511405784e-16, 1.17570561293907018e-16,
      5.00305584591083381e-17, -1.02862640847692731e-18};
    return chebyshev<T, 26>(like(a, 1) - like(a, 6) / (a + like(a, 3)), series);
  }
}

// exp(x * x) * erfc(x). Below zero it is 2 exp(x * x) less that of -x, with what rounding leaves of x * x.
template <class T, class V> STRATA_FN V erfcx(V x) {
  const V zero = like(x, 0), a = abs(x), above = erfcx_scaled<T>(a) / (a + like(x, 0.5));
  const V below_zero = select(x < zero, x, zero), square = below_zero * below_zero;
  const V power = exp(square), twice = power + power, rest = fma(below_zero, below_zero, neg(square));
  const V below = select(is_inf(twice), twice, fma(twice, rest, twice) - above);
  return select(x < zero, below, above);
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#endif
