// Exponentials, logarithms, roots, circular and hyperbolic functions, rounding.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_UNARY_MATH)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_UNARY_MATH
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct Exp : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::exp(x); }
};
template <class T> struct Exp2 : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::exp2(x); }
};
template <class T> struct Expm1 : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::expm1(x); }
};
template <class T> struct Log : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::log(x); }
};
template <class T> struct Log2 : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::log2(x); }
};
template <class T> struct Log10 : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::log10(x); }
};
template <class T> struct Log1p : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::log1p(x); }
};
template <class T> struct Sin : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::sin(x); }
};
template <class T> struct Cos : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::cos(x); }
};
template <class T> struct Tan : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::tan(x); }
};
template <class T> struct Asin : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::asin(x); }
};
template <class T> struct Acos : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::acos(x); }
};
template <class T> struct Atan : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::atan(x); }
};
template <class T> struct Sinh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::sinh(x); }
};
template <class T> struct Cosh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::cosh(x); }
};
template <class T> struct Tanh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::tanh(x); }
};
template <class T> struct Asinh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::asinh(x); }
};
template <class T> struct Acosh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::acosh(x); }
};
template <class T> struct Atanh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::atanh(x); }
};
template <class T> struct Sqrt : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::sqrt(x); }
};
// 0 below 0; NaN stays.
template <class T> struct RootOfPositive : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    const V zero = math::like(x, 0);
    return math::sqrt(math::select(x < zero, zero, x));
  }
};
template <class T> struct Rsqrt : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::like(x, 1) / math::sqrt(x); }
};
template <class T> struct Floor {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::floor(x); }
};
template <class T> struct Ceil {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::ceil(x); }
};
template <class T> struct Trunc {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::trunc(x); }
};
template <class T> struct Round {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::rint(x); }
};
// x rounded to a number of decimals: the scale is 10^decimals, or its inverse for negative ones.
template <class T> struct RoundScaled : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kOwnPrecision = true;
  T scale, negative;
  template <class V> STRATA_FN V operator()(V x) const {
    const V s = math::number(x, scale);
    const V y = negative != T(0) ? math::rint(x / s) * s : math::rint(x * s) / s;
    return math::select(math::is_inf(x), x, y);
  }
};
template <class T> struct Frac {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::sub(x, math::trunc(x)); }
};
// Of a number as a complex one: pi if it is negative.
template <class T> struct Angle : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    const V zero = math::like(x, 0);
    return math::select(math::is_nan(x), x, math::select(x < zero, math::like(x, 3.14159265358979323846), zero));
  }
};
template <class T> struct Deg2Rad : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return x * math::like(x, 0.017453292519943295769); }
};
template <class T> struct Rad2Deg : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return x * math::like(x, 57.295779513082320877); }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
