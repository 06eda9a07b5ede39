// Error functions, gamma functions and stable combinations of logarithms.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_SPECIAL)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_SPECIAL
#endif
#include "device/math_chebyshev.inl"
#include "device/math_gamma_slope.inl"
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct Erf : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::erf(x); }
};
template <class T> struct Erfc : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::erfc(x); }
};
template <class T> struct Erfcx : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::erfcx<T>(x); }
};
template <class T> struct Erfinv : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::erfinv(x); }
};
template <class T> struct Lgamma : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::lgamma(x); }
};
template <class T> struct Digamma : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::digamma(x); }
};
template <class T> struct Polygamma : FloatOnly {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = true;
  T n;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::select(x == math::like(x, INFINITY), math::like(x, 0), math::polygamma(x, math::number(x, n)));
  }
};
template <class T> struct Igamma : FloatOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V a, V x) const { return math::igamma(a, x); }
};
template <class T> struct Igammac : FloatOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V a, V x) const { return math::igammac(a, x); }
};
template <class T> struct StandardGammaGrad : FloatOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V a, V x) const { return math::standard_gamma_grad(a, x); }
};
template <class T> struct StandardLogGammaGrad : FloatOnly {
  static constexpr int kInputs = 2;
  static constexpr bool kLong = true;
  template <class V> STRATA_FN V operator()(V a, V log_x) const { return math::standard_log_gamma_grad(a, log_x); }
};
template <class T> struct Ndtr : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::normal_cdf(x); }
};
template <class T> struct Sinc : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    const V y = x * math::like(x, 3.14159265358979323846);
    return math::select(x == math::like(x, 0), math::like(x, 1), math::sin(y) / y);
  }
};
// eps is NaN if none was given; then values outside [0, 1] are NaN.
template <class T> struct Logit : FloatOnly {
  static constexpr int kInputs = 1;
  T eps;
  template <class V> STRATA_FN V operator()(V x) const {
    const V one = math::like(x, 1);
    if (eps == eps) {  // two choices, not a clamp: PyTorch accepts an eps above one half
      const V low = math::number(x, eps), high = math::number(x, T(1) - eps);
      x = math::select(x < low, low, math::select(x > high, high, x));
    }
    return math::log(x / (one - x));
  }
};
// x log(y), and 0 where x is 0 unless y is NaN.
template <class T> struct Xlogy : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    const V y = math::select(a == math::like(a, 0), math::like(a, 0), a * math::log(b));
    return math::select(math::is_nan(b), b, y);
  }
};
template <class T> struct Xlog1py : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    const V y = math::select(a == math::like(a, 0), math::like(a, 0), a * math::log1p(b));
    return math::select(math::is_nan(b), b, y);
  }
};
template <class T> struct Entr : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    const V zero = math::like(x, 0), y = math::neg(x * math::log(x));
    return math::select(x == zero, zero, math::select(x < zero, math::like(x, -HUGE_VAL), y));
  }
};
// log(e^a + e^b), computed from the larger one; equal infinities are returned unchanged.
template <class T> struct Logaddexp : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    const V larger = math::max(a, b);
    return math::select(math::both(math::is_inf(a), a == b), a, larger + math::log1p_exp_neg_abs(a - b));
  }
};
template <class T> struct Logaddexp2 : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V a, V b) const {
    const V larger = math::max(a, b), ln2 = math::like(a, 0.69314718055994530942);
    const V rest = math::log1p_exp_neg_abs((a - b) * ln2) / ln2;
    return math::select(math::both(math::is_inf(a), a == b), a, larger + rest);
  }
};
template <class T> struct NanToNum {
  static constexpr int kInputs = 1;
  T nan, posinf, neginf;
  template <class V> STRATA_FN V operator()(V x) const {
    const V zero = math::like(x, 0);
    const V y =
      math::select(math::is_inf(x), math::select(x > zero, math::number(x, posinf), math::number(x, neginf)), x);
    return math::select(math::is_nan(x), math::number(x, nan), y);
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
