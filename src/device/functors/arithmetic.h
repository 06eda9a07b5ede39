// Sums, products, quotients, extrema and signs.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_ARITHMETIC)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_ARITHMETIC
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct Add {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kExactNumbers = true;
  T alpha;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::fma(math::number(b, alpha), b, a); }
};
template <class T> struct Sub {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kExactNumbers = true;
  T alpha;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::fma(math::number(b, math::neg(alpha)), b, a);
  }
};
template <class T> struct Rsub {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kExactNumbers = true;
  T alpha;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::fma(math::number(a, math::neg(alpha)), a, b);
  }
};
template <class T> struct Mul {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::mul(a, b); }
};
template <class T> struct Div : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const { return a / b; }
};
template <class T> struct DivTrunc {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr int kNonzero = 1;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::div_trunc(a, b); }
  template <class V> STRATA_FN V whole(V a, V b) const { return math::trunc(a / b); }
};
template <class T> struct DivFloor {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr int kNonzero = 1;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::div_floor(a, b); }
  template <class V> STRATA_FN V whole(V a, V b) const { return math::floor(a / b); }
};
template <class T> struct Remainder {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr int kNonzero = 1;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::remainder(a, b); }
  template <class V> STRATA_FN V whole(V a, V b) const { return a - math::floor(a / b) * b; }
};
template <class T> struct Fmod {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr int kNonzero = 1;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::fmod(a, b); }
  template <class V> STRATA_FN V whole(V a, V b) const { return a - math::trunc(a / b) * b; }
};
template <class T> struct Maximum {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::max(a, b); }
};
template <class T> struct Minimum {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::min(a, b); }
};
// The other operand wins over NaN.
template <class T> struct Fmax {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::select(math::is_nan(b), a, math::select(math::is_nan(a), b, math::max(a, b)));
  }
};
template <class T> struct Fmin {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::select(math::is_nan(b), a, math::select(math::is_nan(a), b, math::min(a, b)));
  }
};
template <class T> struct Clamp {
  static constexpr int kInputs = 3;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  static constexpr double kNone[] = {0, -HUGE_VAL, HUGE_VAL};
  template <class V> STRATA_FN V operator()(V x, V low, V high) const {  // NaN propagates; the upper bound wins
    const V y = math::min(math::max(x, low), high);
    return math::select(math::is_nan(x), x, y);
  }
};
template <class T> struct Copy {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return x; }
};
template <class T> struct Neg {
  static constexpr int kInputs = 1;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::neg(x); }
};
template <class T> struct Abs {
  static constexpr int kInputs = 1;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::abs(x); }
};
template <class T> struct Square {
  static constexpr int kInputs = 1;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::mul(x, x); }
};
template <class T> struct Reciprocal : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::like(x, 1) / x; }
};
template <class T> struct Sign {
  static constexpr int kInputs = 1;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V x) const {  // 0 for NaN
    const V zero = math::like(x, 0);
    return math::truth(x > zero, x) - math::truth(x < zero, x);
  }
};
template <class T> struct Heaviside {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V x, V at_zero) const {
    const V zero = math::like(x, 0);
    return math::select(x == zero, at_zero, math::truth(x > zero, x));
  }
};
template <class T> struct Pow {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::pow(a, b); }
};
// other is integral, whatever its dtype.
template <class T> struct Ldexp : FloatOnly {
  static constexpr int kInputs = 2;
  static constexpr unsigned kSkip = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::ldexp(a, b); }
};
template <class T> struct Copysign : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::copysign(a, b); }
};
template <class T> struct Hypot : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::hypot(a, b); }
};
template <class T> struct Atan2 : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::atan2(a, b); }
};
template <class T> struct NextAfter : FloatOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kOwnPrecision = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::next_after(a, b); }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
