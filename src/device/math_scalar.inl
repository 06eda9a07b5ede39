// Scalar functions; see math.h. Plain C++17 without library types, so that device code can use it.
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// --- arithmetic ----------------------------------------------------------------------------------------------------
template <class T> STRATA_FN T like(T, double c) { return T(c); }  // the constant c, as wide as x
template <class T> STRATA_FN T number(T, T c) { return c; }        // a functor's member, as wide as x
template <class T> STRATA_FN T add(T a, T b) { return a + b; }
template <class T> STRATA_FN T sub(T a, T b) { return a - b; }
template <class T> STRATA_FN T mul(T a, T b) { return a * b; }
template <class T> STRATA_FN T neg(T a) { return -a; }
// Integers wrap around.
STRATA_FN int64_t add(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
STRATA_FN int64_t sub(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
STRATA_FN int64_t mul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
STRATA_FN int64_t neg(int64_t a) { return int64_t(0 - uint64_t(a)); }
// Rounds once on every target. Where a sum of a product is written instead, compilers and ptxas decide whether to fuse it,
// and results with infinities and the last bit differ.
STRATA_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
STRATA_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
// On the host only plain reference loops and tests come here: vectors have hn::MulAdd (math_simd.inl). In code that is
// compiled without FMA instructions it is a call of the C library.
//
// Integers wrap around.
STRATA_FN int64_t fma(int64_t a, int64_t b, int64_t c) { return add(mul(a, b), c); }

// --- masks: bool for scalars, a lane mask for vectors ---------------------------------------------------------------
template <class T> STRATA_FN T select(bool m, T yes, T no) { return m ? yes : no; }
template <class T> STRATA_FN T truth(bool m, T) { return m ? T(1) : T(0); }  // 1 or 0, as wide as x
STRATA_FN bool both(bool a, bool b) { return a && b; }
STRATA_FN bool either(bool a, bool b) { return a || b; }
STRATA_FN bool invert(bool a) { return !a; }
template <class T> STRATA_FN bool nonzero(T x) { return x != T(0); }  // NaN is true
template <class T> STRATA_FN bool is_nan(T x) { return x != x; }
template <class T> STRATA_FN bool is_inf(T x) { return ::fabs(x) == T(INFINITY); }
template <class T> STRATA_FN bool sign_bit(T x) { return ::copysign(T(1), x) < T(0); }
STRATA_FN bool is_nan(int64_t) { return false; }
STRATA_FN bool is_inf(int64_t) { return false; }
STRATA_FN bool sign_bit(int64_t x) { return x < 0; }
STRATA_FN bool sign_bit(uint64_t) { return false; }

// --- rounding and sign ----------------------------------------------------------------------------------------------
template <class T> STRATA_FN T abs(T x) { return ::fabs(x); }
template <class T> STRATA_FN T floor(T x) { return ::floor(x); }
template <class T> STRATA_FN T ceil(T x) { return ::ceil(x); }
template <class T> STRATA_FN T trunc(T x) { return ::trunc(x); }
template <class T> STRATA_FN T rint(T x) { return ::rint(x); }  // half to even
template <class T> STRATA_FN T copysign(T x, T s) { return ::copysign(x, s); }
STRATA_FN int64_t abs(int64_t x) { return x < 0 ? neg(x) : x; }
STRATA_FN uint64_t abs(uint64_t x) { return x; }
STRATA_FN int64_t floor(int64_t x) { return x; }
STRATA_FN int64_t ceil(int64_t x) { return x; }
STRATA_FN int64_t trunc(int64_t x) { return x; }
STRATA_FN int64_t rint(int64_t x) { return x; }
// NaN on either side wins; of equal values (0 and -0) the first.
template <class T> STRATA_FN T max(T a, T b) { return a < b || is_nan(b) ? b : a; }
template <class T> STRATA_FN T min(T a, T b) { return a > b || is_nan(b) ? b : a; }
template <class T> STRATA_FN T sqrt(T x) { return ::sqrt(x); }

// --- elementary functions -------------------------------------------------------------------------------------------
template <class T> STRATA_FN T exp(T x) { return ::exp(x); }
template <class T> STRATA_FN T exp_coarse(T x) { return ::exp(x); }  // for sums and quotients: see math_simd.inl
template <class T> STRATA_FN T exp2(T x) { return ::exp2(x); }
template <class T> STRATA_FN T expm1(T x) { return ::expm1(x); }
template <class T> STRATA_FN T log(T x) { return ::log(x); }
template <class T> STRATA_FN T log2(T x) { return ::log2(x); }
template <class T> STRATA_FN T log10(T x) { return ::log10(x); }
template <class T> STRATA_FN T log1p(T x) { return ::log1p(x); }
template <class T> STRATA_FN T sin(T x) { return ::sin(x); }
template <class T> STRATA_FN T cos(T x) { return ::cos(x); }
template <class T> STRATA_FN T tan(T x) { return ::tan(x); }
template <class T> STRATA_FN T asin(T x) { return ::asin(x); }
template <class T> STRATA_FN T acos(T x) { return ::acos(x); }
template <class T> STRATA_FN T atan(T x) { return ::atan(x); }
template <class T> STRATA_FN T sinh(T x) { return ::sinh(x); }
template <class T> STRATA_FN T cosh(T x) { return ::cosh(x); }
template <class T> STRATA_FN T tanh(T x) { return ::tanh(x); }
template <class T> STRATA_FN T asinh(T x) { return ::asinh(x); }
template <class T> STRATA_FN T acosh(T x) { return ::acosh(x); }
template <class T> STRATA_FN T atanh(T x) { return ::atanh(x); }
template <class T> STRATA_FN T erf(T x) { return ::erf(x); }
template <class T> STRATA_FN T erfc(T x) { return ::erfc(x); }
template <class T> STRATA_FN T pow(T x, T y) { return ::pow(x, y); }
template <class T> STRATA_FN T atan2(T y, T x) { return ::atan2(y, x); }
template <class T> STRATA_FN T hypot(T x, T y) { return ::hypot(x, y); }
template <class T> STRATA_FN T fmod(T a, T b) { return ::fmod(a, b); }
template <class T> STRATA_FN T ldexp(T a, T b) {  // a * 2^b for an integral b; the limits are beyond every exponent
  return ::ldexp(a, int(b < T(-5000) ? T(-5000) : b > T(5000) ? T(5000) : b));
}
template <class T> STRATA_FN T next_after(T a, T b) { return ::nextafter(a, b); }
#ifdef __CUDACC__
template <class T> STRATA_FN T lgamma(T x) { return ::lgamma(x); }
#else  // ::lgamma writes the global signgam
STRATA_FN float lgamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
STRATA_FN double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
#endif

// The standard normal distribution function; keeps its relative accuracy where it is tiny.
template <class T> STRATA_FN T normal_cdf(T x) { return T(0.5) * ::erfc(x * T(-0.70710678118654752440)); }
#ifdef __CUDA_ARCH__
// Like normal_cdf_f32 of math_erf.inl, with its coefficients: the lower tail is 2^Q(|x|). A third of erfc's
// instructions.
template <> STRATA_FN float normal_cdf(float x) {
  constexpr float q[] = {-0.9999999615625086f,    -1.1511062494811988f,    -0.4592048580796245f,
                         -0.05248579244472211f,   0.007004628362243905f,   -3.79337260245806e-05f,
                         -0.0002678398379651285f, 7.587500478002874e-05f,  -1.1686712066497984e-05f,
                         1.0790748096542556e-06f, -5.539090850203521e-08f, 1.1994883366184455e-09f};
  const float t = ::fminf(::fabsf(x), 14.f);
  float e = q[11], tail;
#pragma unroll
  for (int k = 10; k >= 0; --k) e = ::fmaf(e, t, q[k]);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail) : "f"(e));
  return x < 0 ? tail : x == x ? 1.f - tail : x;
}
#endif
template <class T> STRATA_FN T sigmoid(T x) { return T(1) / (T(1) + ::exp(-x)); }
// log(1 + exp(-|x|)): the bounded part of softplus, logsigmoid and logaddexp.
template <class T> STRATA_FN T log1p_exp_neg_abs(T x) { return ::log1p(::exp(-::fabs(x))); }

// --- integers -------------------------------------------------------------------------------------------------------
// Quotients by 0 are 0: callers that must reject them check before (Formula::nonzero).
STRATA_FN int64_t div_trunc(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? neg(a) : a / b; }
STRATA_FN int64_t fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
STRATA_FN int64_t div_floor(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return neg(a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
STRATA_FN uint64_t div_trunc(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
STRATA_FN uint64_t div_floor(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
STRATA_FN uint64_t fmod(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }
STRATA_FN uint64_t remainder(uint64_t a, uint64_t b) { return fmod(a, b); }
STRATA_FN uint64_t pow(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}
STRATA_FN int64_t pow(int64_t base, int64_t exponent) {  // negative exponents: 1/x, rounded to zero
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  return int64_t(pow(uint64_t(base), uint64_t(exponent)));
}
STRATA_FN int64_t shift_left(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : int64_t(uint64_t(a) << b); }
STRATA_FN int64_t shift_right(int64_t a, int64_t b) { return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b; }
STRATA_FN uint64_t shift_right(uint64_t a, uint64_t b) { return b > 63 ? 0 : a >> b; }
STRATA_FN uint64_t gcd(uint64_t a, uint64_t b) {
  while (b) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
STRATA_FN int64_t gcd(int64_t a, int64_t b) { return int64_t(gcd(uint64_t(abs(a)), uint64_t(abs(b)))); }

// --- division with rounding -----------------------------------------------------------------------------------------
template <class T> STRATA_FN T div_trunc(T a, T b) { return ::trunc(a / b); }
// Python's //: from the exact remainder, so that the quotient is right where a / b rounds up to an integer.
template <class T> STRATA_FN T div_floor(T a, T b) {
  if (b == T(0)) return a / b;
  const T rest = ::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != T(0) && (b < T(0)) != (rest < T(0))) quotient -= T(1);
  if (quotient == T(0)) return ::copysign(T(0), a / b);
  T whole = ::floor(quotient);
  if (quotient - whole > T(0.5)) whole += T(1);
  return whole;
}
template <class T> STRATA_FN T remainder(T a, T b) {  // has the sign of b
  const T rest = ::fmod(a, b);
  return rest != T(0) && (b < T(0)) != (rest < T(0)) ? rest + b : rest;
}
STRATA_FN int64_t remainder(int64_t a, int64_t b) {
  const int64_t rest = fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// --- special functions ----------------------------------------------------------------------------------------------
// Reflection for x < 0, recurrence up to 10, then the asymptotic series.
template <class T> STRATA_FN T digamma(T arg) {
  double x = arg, result = 0;
  if (x == 0) return ::copysign(T(INFINITY), -arg);
  if (x < 0) {
    if (x == ::floor(x)) return T(NAN);
    const double pi = 3.14159265358979323846;
    result = -pi / ::tan(pi * (x - ::rint(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  const double series =
    z *
    (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return T(result + ::log(x) - 0.5 / x - (x < 1e17 ? series : 0));
}
// The Hurwitz zeta function sum (q + k)^-s for s > 1 and q > 0: ten terms, then the Euler-Maclaurin formula (as in
// Cephes).
STRATA_FN double hurwitz_zeta_above_zero(double s, double q) {
  constexpr double coefficients[] = {12.0,
                                     -720.0,
                                     30240.0,
                                     -1209600.0,
                                     47900160.0,
                                     -1.8924375803183791606e9,
                                     7.47242496e10,
                                     -2.950130727918164224e12,
                                     1.1646782814350067249e14,
                                     -4.5979787224074726105e15,
                                     1.8152105401943546773e17,
                                     -7.1661652561756670113e18};
  double sum = ::pow(q, -s), at = q, term = 0;
  for (int i = 0; i < 9 || at <= 9; ++i) {
    at += 1;
    term = ::pow(at, -s);
    sum += term;
  }
  sum += term * at / (s - 1) - 0.5 * term;
  double factor = 1, k = 0;
  for (double c : coefficients) {
    factor *= s + k;
    term /= at;
    const double next = factor * term / c;
    sum += next;
    if (::fabs(next) < 1e-17 * ::fabs(sum)) break;
    k += 1;
    factor *= s + k;
    term /= at;
    k += 1;
  }
  return sum;
}
// The same for any q and an integral s. The terms below zero are, except for their sign, a difference of two sums above
// it: a loop over them would not terminate for q = -1e15.
STRATA_FN double hurwitz_zeta(double s, double q) {
  if (q > 0) return hurwitz_zeta_above_zero(s, q);
  if (q == ::floor(q)) return INFINITY;
  const double part = ::ceil(q) - q,
               sign = ::fmod(s, 2.0) == 0 ? 1 : -1;  // q, q + 1, ..., part - 1, part; with part in (0, 1)
  const double below = hurwitz_zeta_above_zero(s, 1 - part) - hurwitz_zeta_above_zero(s, 1 - q);
  return hurwitz_zeta_above_zero(s, part) + sign * below;
}
// The n-th derivative of digamma, n >= 1.
template <class T> STRATA_FN T polygamma(T x, T n) {
  if (is_nan(x)) return x;
  const double value = ::tgamma(double(n) + 1) * hurwitz_zeta(double(n) + 1, double(x));
  return T(::fmod(double(n), 2.0) == 0 ? -value : value);
}
// The regularized incomplete gamma functions P (lower) and Q = 1 - P: a series below the mode, Legendre's continued
// fraction (by Lentz's method) above it. Both converge in at most about sqrt(a) steps.
STRATA_FN double incomplete_gamma(double a, double x, bool lower) {
  if (a < 0 || x < 0 || (a == 0 && !(x > 0)) || (::isinf(a) && ::isinf(x))) return NAN;
  // Limits that do not depend on the other argument, not even if it is NaN, as in PyTorch.
  if (a == 0 || ::isinf(x)) return lower ? 1 : 0;
  if (x == 0 || ::isinf(a)) return lower ? 0 : 1;
  if (a != a || x != x) return NAN;
  const double front = ::exp(a * ::log(x) - x - ::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 100000 && term > sum * 1e-17; ++n) {
      term *= x / (a + n);
      sum += term;
    }
    return lower ? front * sum : 1 - front * sum;
  }
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int n = 1; n < 100000; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    d = 1 / (d == 0 ? tiny : d);
    c = c == 0 ? tiny : c;
    h *= d * c;
    if (::fabs(d * c - 1) < 1e-16) break;
  }
  return lower ? 1 - front * h : front * h;
}
template <class T> STRATA_FN T igamma(T a, T x) { return T(incomplete_gamma(double(a), double(x), true)); }
template <class T> STRATA_FN T igammac(T a, T x) { return T(incomplete_gamma(double(a), double(x), false)); }
// A rational approximation (Giles' ranges, as in PyTorch), then Newton steps on erfc where erf is near one.
template <class T> STRATA_FN T erfinv(T arg) {
  const double y = arg, a = ::fabs(y);
  if (!(a <= 1)) return T(NAN);
  if (a == 1) return ::copysign(T(INFINITY), arg);
  double x;
  if (a <= 0.7) {
    const double z = a * a;
    x = a * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899) /
        ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1);
  } else {
    const double z = ::sqrt(-::log((1 - a) / 2));
    x = (((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454) /
        ((1.637067800 * z + 3.543889200) * z + 1);
  }
  for (int i = 0; i < 2; ++i) {
    const double error = a <= 0.5 ? ::erf(x) - a : (1 - a) - ::erfc(x);
    x -= error / (1.12837916709551257390 * ::exp(-x * x));
  }
  return ::copysign(T(x), arg);
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
