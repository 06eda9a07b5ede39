// Functions of three operands.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_TERNARY)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_TERNARY
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct Where {
  static constexpr int kInputs = 3;
  static constexpr unsigned kSkip = 1;
  static constexpr bool kMoves = true;
  template <class V> STRATA_FN V operator()(V condition, V yes, V no) const {
    return math::select(math::nonzero(condition), yes, no);
  }
};
// The result has the dtype of the first operand.
template <class T> struct MaskedFill {
  static constexpr int kInputs = 3;
  static constexpr unsigned kSkip = 6;
  static constexpr bool kMoves = true;
  template <class V> STRATA_FN V operator()(V x, V mask, V value) const {
    return math::select(math::nonzero(mask), value, x);
  }
};
// Starts from the nearer end, so that both ends are exact.
template <class T> struct Lerp : FloatOnly {
  static constexpr int kInputs = 3;
  static constexpr unsigned kSkip = 4;
  template <class V> STRATA_FN V operator()(V start, V end, V weight) const {
    const V rest = math::like(weight, 1) - weight, step = end - start;
    return math::select(math::abs(weight) < math::like(weight, 0.5), math::fma(weight, step, start), end - step * rest);
  }
};
template <class T> struct Addcmul {
  static constexpr int kInputs = 3;
  static constexpr bool kExactNumbers = true;
  T value;
  template <class V> STRATA_FN V operator()(V x, V a, V b) const {
    return math::fma(math::mul(math::number(a, value), a), b, x);
  }
};
template <class T> struct Addcdiv : FloatOnly {
  static constexpr int kInputs = 3;
  T value;
  template <class V> STRATA_FN V operator()(V x, V a, V b) const { return math::fma(math::number(a, value), a / b, x); }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
