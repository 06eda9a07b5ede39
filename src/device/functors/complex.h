// The formulas of pointwise ops for complex numbers: T is Complex<float> or Complex<double>. An op names its functor with
// .complex<fn::ComplexExp>(). Optional constants of a functor:
//   kVector      also compiled for SIMD vectors: V is then Complex of a vector
//   kRealResult  the imaginary part of the result is 0, and the op's result has the real dtype
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_COMPLEX)
#ifndef __CUDACC__
#include <complex>
#endif
#include "device/complex.h"
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_COMPLEX
#endif
#include "device/complex_math.inl"
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

// --- arithmetic; the parts are numbers or vectors --------------------------------------------------------------------
namespace cx {
template <class T> STRATA_FN Complex<T> add(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> STRATA_FN Complex<T> sub(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> STRATA_FN Complex<T> neg(Complex<T> a) { return {math::neg(a.re), math::neg(a.im)}; }
template <class T> STRATA_FN Complex<T> mul(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// Smith's method: scaled by the larger part of the divisor, so that nothing overflows before the quotient does.
template <class T> STRATA_FN Complex<T> div(Complex<T> a, Complex<T> b) {
  const auto first = math::abs(b.re) >= math::abs(b.im);
  const T zero = math::like(b.re, 0);
  const T p = math::select(first, b.re, b.im), q = math::select(first, b.im, b.re);
  const T ratio = math::select(p == zero, zero, q / p), scale = p + q * ratio;
  const T x = math::select(first, a.re + a.im * ratio, a.re * ratio + a.im);
  const T y = math::select(first, a.im - a.re * ratio, a.im * ratio - a.re);
  const T divisor = math::select(p == zero, math::abs(p), scale);  // z / 0 has the signs of z
  return {x / divisor, y / divisor};
}
template <class T, class M> STRATA_FN Complex<T> number(Complex<T> like, Complex<M> member) {
  return {math::number(like.re, member.re), math::number(like.im, member.im)};
}
// member * z, where a real factor must not make NaN of 0 * infinity.
template <class T, class M> STRATA_FN Complex<T> scaled(Complex<M> member, Complex<T> z) {
  const Complex<T> factor = number(z, member);
  if (member.im == 0) return {factor.re * z.re, factor.re * z.im};
  return mul(factor, z);
}
template <class T> STRATA_FN Complex<T> real(T re) { return {re, math::like(re, 0)}; }
template <class T> STRATA_FN Complex<T> truth(bool is) { return {is ? T(1) : T(0), T(0)}; }
template <class T> STRATA_FN bool equal(Complex<T> a, Complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class T> STRATA_FN bool nonzero(Complex<T> z) { return z.re != T(0) || z.im != T(0); }
template <class T> STRATA_FN bool is_nan(Complex<T> z) { return math::is_nan(z.re) || math::is_nan(z.im); }
template <class T> STRATA_FN bool is_inf(Complex<T> z) { return math::is_inf(z.re) || math::is_inf(z.im); }
template <class T> STRATA_FN Complex<double> wide(Complex<T> z) { return {double(z.re), double(z.im)}; }
template <class T> STRATA_FN T narrow(Complex<double> z) {
  using Part = decltype(T::re);
  return {Part(z.re), Part(z.im)};
}
template <class T> STRATA_FN T abs(Complex<T> z) { return T(complex_math::modulus(wide(z))); }
// Of a number whose real part is not positive, so that the exponential does not overflow.
STRATA_FN Complex<double> sigmoid(Complex<double> z) {
  const Complex<double> one{1, 0}, e = complex_math::exp(z.re < 0 ? z : neg(z)), below = add(one, e);
  return div(z.re < 0 ? e : one, below);
}
}  // namespace cx

template <class T> struct ComplexCopy {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V z) const { return z; }
};
template <class T> struct ComplexAdd {
  static constexpr int kInputs = 2;
  static constexpr bool kVector = true;
  T alpha;
  template <class V> STRATA_FN V operator()(V a, V b) const { return cx::add(a, cx::scaled(alpha, b)); }
};
template <class T> struct ComplexSub {
  static constexpr int kInputs = 2;
  static constexpr bool kVector = true;
  T alpha;
  template <class V> STRATA_FN V operator()(V a, V b) const { return cx::sub(a, cx::scaled(alpha, b)); }
};
template <class T> struct ComplexRsub {
  static constexpr int kInputs = 2;
  static constexpr bool kVector = true;
  T alpha;
  template <class V> STRATA_FN V operator()(V a, V b) const { return cx::sub(b, cx::scaled(alpha, a)); }
};
template <class T> struct ComplexMul {
  static constexpr int kInputs = 2;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return cx::mul(a, b); }
};
template <class T> struct ComplexDiv {
  static constexpr int kInputs = 2;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return cx::div(a, b); }
};
template <class T> struct ComplexNeg {
  static constexpr int kInputs = 1;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V z) const { return cx::neg(z); }
};
template <class T> struct ComplexConj {
  static constexpr int kInputs = 1;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V z) const { return {z.re, math::neg(z.im)}; }
};
template <class T> struct ComplexSquare {
  static constexpr int kInputs = 1;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V z) const { return cx::mul(z, z); }
};
template <class T> struct ComplexReciprocal {
  static constexpr int kInputs = 1;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V z) const { return cx::div(cx::real(math::like(z.re, 1)), z); }
};
template <class T> struct ComplexAbs {
  static constexpr int kInputs = 1;
  static constexpr bool kRealResult = true;
  STRATA_FN T operator()(T z) const { return cx::real(cx::abs(z)); }
};
template <class T> struct ComplexAngle {
  static constexpr int kInputs = 1;
  static constexpr bool kRealResult = true;
  STRATA_FN T operator()(T z) const {
    return cx::is_nan(z) ? cx::real(z.re + z.im) : cx::real(math::atan2(z.im, z.re));
  }
};
// z / |z|, and 0 for 0.
template <class T> struct ComplexSgn {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const auto r = cx::abs(z);
    return r == 0 ? T{0, 0} : T{z.re / r, z.im / r};
  }
};

// --- elementary functions --------------------------------------------------------------------------------------------
template <class T> struct ComplexExp {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::exp(cx::wide(z))); }
};
template <class T> struct ComplexExp2 {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const Complex<double> w = cx::wide(z);
    const double r = ::exp2(w.re);
    if (w.im == 0) return cx::narrow<T>({r, w.im});
    const Complex<double> turn = complex_math::exp({0, w.im * 0.69314718055994530942});
    return cx::narrow<T>({r * turn.re, r * turn.im});
  }
};
template <class T> struct ComplexExpm1 {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::expm1(cx::wide(z))); }
};
template <class T> struct ComplexLog {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::log(cx::wide(z))); }
};
template <class T> struct ComplexLog2 {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const Complex<double> w = complex_math::log(cx::wide(z));
    return cx::narrow<T>({w.re * 1.44269504088896340736, w.im * 1.44269504088896340736});
  }
};
template <class T> struct ComplexLog10 {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const Complex<double> w = complex_math::log(cx::wide(z));
    return cx::narrow<T>({w.re * 0.43429448190325182765, w.im * 0.43429448190325182765});
  }
};
template <class T> struct ComplexLog1p {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::log1p(cx::wide(z))); }
};
template <class T> struct ComplexSqrt {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::sqrt(cx::wide(z))); }
};
template <class T> struct ComplexRsqrt {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    return cx::narrow<T>(cx::div(Complex<double>{1, 0}, complex_math::sqrt(cx::wide(z))));
  }
};
template <class T> struct ComplexSin {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::sin(cx::wide(z))); }
};
template <class T> struct ComplexCos {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::cos(cx::wide(z))); }
};
template <class T> struct ComplexTan {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::tan(cx::wide(z))); }
};
template <class T> struct ComplexAsin {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::asin(cx::wide(z))); }
};
template <class T> struct ComplexAcos {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::acos(cx::wide(z))); }
};
template <class T> struct ComplexAtan {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::atan(cx::wide(z))); }
};
template <class T> struct ComplexSinh {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::sinh(cx::wide(z))); }
};
template <class T> struct ComplexCosh {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::cosh(cx::wide(z))); }
};
template <class T> struct ComplexTanh {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::tanh(cx::wide(z))); }
};
template <class T> struct ComplexAsinh {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::asinh(cx::wide(z))); }
};
template <class T> struct ComplexAcosh {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::acosh(cx::wide(z))); }
};
template <class T> struct ComplexAtanh {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(complex_math::atanh(cx::wide(z))); }
};
template <class T> struct ComplexSigmoid {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::narrow<T>(cx::sigmoid(cx::wide(z))); }
};
template <class T> struct ComplexSilu {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const Complex<double> w = cx::wide(z);
    return cx::narrow<T>(cx::mul(w, cx::sigmoid(w)));
  }
};
template <class T> struct ComplexSoftsign {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const Complex<double> w = cx::wide(z);
    const double below = 1 + complex_math::modulus(w);
    return cx::narrow<T>({w.re / below, w.im / below});
  }
};
template <class T> struct ComplexTanhshrink {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    const Complex<double> w = cx::wide(z);
    return cx::narrow<T>(cx::sub(w, complex_math::tanh(w)));
  }
};
template <class T> struct ComplexSinc {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const {
    constexpr double kPi = 3.14159265358979323846;
    if (!cx::nonzero(z)) return {1, 0};
    const Complex<double> w{double(z.re) * kPi, double(z.im) * kPi};
    return cx::narrow<T>(cx::div(complex_math::sin(w), w));
  }
};
// The larger number is the one with the larger real part; the angle of the result is its imaginary part plus at most pi/2.
template <class T> struct ComplexLogaddexp {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T a, T b) const {
    if (cx::is_nan(a) || cx::is_nan(b)) return {NAN, NAN};
    const bool first = a.re >= b.re;
    const Complex<double> more = cx::wide(first ? a : b), less = cx::wide(first ? b : a);
    if (math::is_inf(more.re) && more.re == less.re)
      return cx::narrow<T>(more.re < 0 ? less
                                       : complex_math::log(cx::add(complex_math::exp(less), complex_math::exp(more))));
    return cx::narrow<T>(cx::add(more, complex_math::log1p(complex_math::exp(cx::sub(less, more)))));
  }
};
// Small integral exponents by repeated products, which are exact for Gaussian integers; others as exp(b log(a)).
template <class T> struct ComplexPow {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T base, T exponent) const {
    const Complex<double> a = cx::wide(base), b = cx::wide(exponent), one{1, 0};
    if (b.im == 0 && b.re == ::rint(b.re) && ::fabs(b.re) <= 1024) {
      Complex<double> power = one, square = a;
      for (int n = int(::fabs(b.re)); n; n >>= 1) {
        if (n & 1) power = cx::mul(power, square);
        if (n > 1) square = cx::mul(square, square);
      }
      return cx::narrow<T>(b.re < 0 ? cx::div(one, power) : power);
    }
    if (!cx::nonzero(a)) {
      const double value = b.re > 0 ? 0 : NAN;
      return cx::narrow<T>({value, value});
    }
    return cx::narrow<T>(complex_math::exp(cx::mul(b, complex_math::log(a))));
  }
};

// --- predicates and selections ---------------------------------------------------------------------------------------
template <class T> struct ComplexEq : Predicate {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T a, T b) const { return cx::truth<decltype(T::re)>(cx::equal(a, b)); }
};
template <class T> struct ComplexNe : Predicate {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T a, T b) const { return cx::truth<decltype(T::re)>(!cx::equal(a, b)); }
};
template <class T> struct ComplexLogicalAnd : Predicate {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T a, T b) const { return cx::truth<decltype(T::re)>(cx::nonzero(a) && cx::nonzero(b)); }
};
template <class T> struct ComplexLogicalOr : Predicate {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T a, T b) const { return cx::truth<decltype(T::re)>(cx::nonzero(a) || cx::nonzero(b)); }
};
template <class T> struct ComplexLogicalXor : Predicate {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T a, T b) const { return cx::truth<decltype(T::re)>(cx::nonzero(a) != cx::nonzero(b)); }
};
template <class T> struct ComplexLogicalNot : Predicate {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::truth<decltype(T::re)>(!cx::nonzero(z)); }
};
template <class T> struct ComplexIsNan : Predicate {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::truth<decltype(T::re)>(cx::is_nan(z)); }
};
template <class T> struct ComplexIsInf : Predicate {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::truth<decltype(T::re)>(cx::is_inf(z)); }
};
template <class T> struct ComplexIsFinite : Predicate {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T z) const { return cx::truth<decltype(T::re)>(!cx::is_inf(z) && !cx::is_nan(z)); }
};
// |a - b| <= atol + rtol |b|; infinities only when equal.
template <class T> struct ComplexIsClose : Predicate {
  static constexpr int kInputs = 2;
  T rtol, atol, equal_nan;
  STRATA_FN T operator()(T a, T b) const {
    const auto bound = atol.re + rtol.re * cx::abs(b);
    const bool near = cx::abs(cx::sub(a, b)) <= bound && !cx::is_inf(b);
    const bool nans = equal_nan.re != 0 && cx::is_nan(a) && cx::is_nan(b);
    return cx::truth<decltype(T::re)>(near || cx::equal(a, b) || nans);
  }
};
template <class T> struct ComplexWhere {
  static constexpr int kInputs = 3;
  STRATA_FN T operator()(T condition, T yes, T no) const { return cx::nonzero(condition) ? yes : no; }
};
template <class T> struct ComplexMaskedFill {
  static constexpr int kInputs = 3;
  STRATA_FN T operator()(T z, T mask, T value) const { return cx::nonzero(mask) ? value : z; }
};
template <class T> struct ComplexLerp {
  static constexpr int kInputs = 3;
  static constexpr bool kVector = true;
  template <class V> STRATA_FN V operator()(V start, V end, V weight) const {
    return cx::add(start, cx::mul(weight, cx::sub(end, start)));
  }
};
template <class T> struct ComplexAddcmul {
  static constexpr int kInputs = 3;
  static constexpr bool kVector = true;
  T value;
  template <class V> STRATA_FN V operator()(V z, V a, V b) const {
    return cx::add(z, cx::mul(cx::scaled(value, a), b));
  }
};
template <class T> struct ComplexAddcdiv {
  static constexpr int kInputs = 3;
  static constexpr bool kVector = true;
  T value;
  template <class V> STRATA_FN V operator()(V z, V a, V b) const {
    return cx::add(z, cx::scaled(value, cx::div(a, b)));
  }
};
// A complex number from its parts, and from its modulus and angle; the operands are real.
template <class T> struct ComplexFromParts {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T re, T im) const { return {re.re, im.re}; }
};
template <class T> struct ComplexFromPolar {
  static constexpr int kInputs = 2;
  STRATA_FN T operator()(T modulus, T angle) const {
    return {modulus.re * math::cos(angle.re), modulus.re * math::sin(angle.re)};
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
