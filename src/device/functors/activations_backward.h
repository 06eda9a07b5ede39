// Gradients of activations: g is the incoming gradient, x the input.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_ACTIVATIONS_BACKWARD)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_ACTIVATIONS_BACKWARD
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

// In terms of the result y.
template <class T> struct SigmoidBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V y) const { return g * y * (math::like(y, 1) - y); }
};
// In terms of the result y.
template <class T> struct TanhBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V y) const { return g * (math::like(y, 1) - y * y); }
};
template <class T> struct ThresholdBackward {
  static constexpr int kInputs = 2;
  T threshold;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    return math::select(x <= math::number(x, threshold), math::like(x, 0), g);
  }
};
template <class T> struct LeakyReluBackward : FloatOnly {
  static constexpr int kInputs = 2;
  T slope;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    return math::select(x > math::like(x, 0), g, g * math::number(x, slope));
  }
};
template <class T> struct EluBackward : FloatOnly {
  static constexpr int kInputs = 2;
  T alpha, scale, input_scale;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V s = math::number(x, scale), c = math::number(x, input_scale);
    const V below = s * c * math::number(x, alpha) * math::exp_coarse(x * c);
    return g * math::select(x <= math::like(x, 0), below, s);
  }
};
template <class T> struct GeluBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V pdf = math::exp_coarse(x * x * math::like(x, -0.5)) * math::like(x, 0.39894228040143267794);
    return g * math::fma(x, pdf, math::normal_cdf(x));
  }
};
template <class T> struct GeluTanhBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V one = math::like(x, 1), half = math::like(x, 0.5), k = math::like(x, 0.79788456080286536);
    const V t = math::tanh(x * k * math::fma(x * x, math::like(x, 0.044715), one));
    const V slope = k * math::fma(x * x, math::like(x, 3 * 0.044715), one);
    return g * half * (one + t + x * (one - t * t) * slope);
  }
};
template <class T> struct SiluBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V one = math::like(x, 1), s = math::sigmoid(x);
    return g * s * math::fma(x, one - s, one);
  }
};
template <class T> struct MishBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V one = math::like(x, 1), t = math::tanh(math::max(x, math::like(x, 0)) + math::log1p_exp_neg_abs(x));
    return g * math::fma(x * math::sigmoid(x), one - t * t, t);
  }
};
template <class T> struct SoftplusBackward : FloatOnly {
  static constexpr int kInputs = 2;
  T beta, threshold;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V s = x * math::number(x, beta);
    return math::select(s > math::number(x, threshold), g, g * math::sigmoid(s));
  }
};
// Also used for softshrink.
template <class T> struct HardshrinkBackward : FloatOnly {
  static constexpr int kInputs = 2;
  T lambd;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V l = math::number(x, lambd);
    return math::select(math::both(x >= math::neg(l), x <= l), math::like(x, 0), g);
  }
};
template <class T> struct HardtanhBackward {
  static constexpr int kInputs = 2;
  T low, high;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V zero = math::like(x, 0);
    return math::select(x <= math::number(x, low), zero, math::select(x >= math::number(x, high), zero, g));
  }
};
template <class T> struct HardswishBackward : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V g, V x) const {
    const V three = math::like(x, 3), zero = math::like(x, 0);
    const V inside = g * (x / three + math::like(x, 0.5));
    return math::select(x <= math::neg(three), zero, math::select(x < three, inside, g));
  }
};
// With number bounds: no gradient passes at a bound or at NaN. A missing bound is NaN, which compares as false.
template <class T> struct ClampBackward : FloatOnly {
  static constexpr int kInputs = 4;
  static constexpr double kNone[] = {0, 0, NAN, NAN};
  template <class V> STRATA_FN V operator()(V g, V x, V low, V high) const {
    const V zero = math::like(x, 0), numbers = math::select(x == x, g, zero);
    return math::select(x <= low, zero, math::select(x >= high, zero, numbers));
  }
};
// With tensor bounds: an element equal to a bound shares the gradient with it. NaN passes the gradient.
template <class T> struct ClampShareBackward : FloatOnly {
  static constexpr int kInputs = 4;
  static constexpr double kNone[] = {0, 0, NAN, NAN};
  template <class V> STRATA_FN V operator()(V g, V x, V low, V high) const {
    const V zero = math::like(x, 0), half = g * math::like(x, 0.5);
    const V tied = math::select(x == low, half, math::select(x == high, half, g));
    const V inside = math::select(low == high, g, tied);
    const V outside = math::select(x < low, zero, math::select(x > high, zero, inside));
    return math::select(low > high, zero, outside);
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
