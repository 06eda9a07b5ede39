// Integers as bits.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_BITWISE)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_BITWISE
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct BitAnd : IntOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return a & b; }
};
template <class T> struct BitOr : IntOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return a | b; }
};
template <class T> struct BitXor : IntOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kSmallInts = true;
  static constexpr bool kBools = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return a ^ b; }
};
template <class T> struct BitNot : IntOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kSmallInts = true;
  template <class V> STRATA_FN V operator()(V x) const { return ~x; }
};
template <class T> struct ShiftLeft : IntOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::shift_left(a, b); }
};
template <class T> struct ShiftRight : IntOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::shift_right(a, b); }
};
template <class T> struct Gcd : IntOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V a, V b) const { return math::gcd(a, b); }
};
template <class T> struct Lcm : IntOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    return a == 0 || b == 0 ? 0 : math::abs(math::mul(a / math::gcd(a, b), b));
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
