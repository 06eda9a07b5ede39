// Comparisons, logic and tests of single values: 1 or 0.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_COMPARE)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_COMPARE
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct Eq : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::truth(a == b, a); }
};
template <class T> struct Ne : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::truth(math::invert(a == b), a);
  }  // true for NaN
};
template <class T> struct Lt : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::truth(a < b, a); }
};
template <class T> struct Le : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::truth(a <= b, a); }
};
template <class T> struct Gt : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::truth(a > b, a); }
};
template <class T> struct Ge : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::truth(a >= b, a); }
};
template <class T> struct LogicalAnd : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::truth(math::both(math::nonzero(a), math::nonzero(b)), a);
  }
};
template <class T> struct LogicalOr : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return math::truth(math::either(math::nonzero(a), math::nonzero(b)), a);
  }
};
template <class T> struct LogicalXor : Predicate {
  static constexpr int kInputs = 2;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    const V x = math::truth(math::nonzero(a), a), y = math::truth(math::nonzero(b), b);
    return math::truth(x != y, a);
  }
};
template <class T> struct LogicalNot : Predicate {
  static constexpr int kInputs = 1;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::truth(x == math::like(x, 0), x); }
};
template <class T> struct IsNan : Predicate {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::truth(math::is_nan(x), x); }
};
template <class T> struct IsInf : Predicate {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::truth(math::is_inf(x), x); }
};
template <class T> struct IsFinite : Predicate {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::truth(math::invert(math::either(math::is_nan(x), math::is_inf(x))), x);
  }
};
template <class T> struct IsPosInf : Predicate {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::truth(math::both(math::is_inf(x), x > math::like(x, 0)), x);
  }
};
template <class T> struct IsNegInf : Predicate {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::truth(math::both(math::is_inf(x), x < math::like(x, 0)), x);
  }
};
template <class T> struct SignBit : Predicate {
  static constexpr int kInputs = 1;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::truth(math::sign_bit(x), x); }
};
// |a - b| <= atol + rtol |b|; infinities only when equal.
template <class T> struct IsClose : FloatPredicate {
  static constexpr int kInputs = 2;
  T rtol, atol, equal_nan;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    const V bound = math::fma(math::number(b, rtol), math::abs(b), math::number(b, atol));
    const auto near = math::both(math::abs(a - b) <= bound, math::invert(math::is_inf(b)));
    V result = math::truth(math::either(near, a == b), a);
    if (equal_nan != T(0))
      result = math::select(math::both(math::is_nan(a), math::is_nan(b)), math::like(a, 1), result);
    return result;
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
