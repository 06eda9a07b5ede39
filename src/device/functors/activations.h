// Activations of neural networks.
#include "device/functors/traits.h"
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_ACTIVATIONS)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_ACTIVATIONS
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

template <class T> struct Sigmoid : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return math::sigmoid(x); }
};
template <class T> struct Relu {
  static constexpr int kInputs = 1;
  static constexpr bool kUnsigned = true;
  template <class V> STRATA_FN V operator()(V x) const { return math::max(x, math::like(x, 0)); }
};
template <class T> struct LeakyRelu : FloatOnly {
  static constexpr int kInputs = 1;
  T slope;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::select(x > math::like(x, 0), x, x * math::number(x, slope));
  }
};
template <class T> struct Prelu : FloatOnly {
  static constexpr int kInputs = 2;
  template <class V> STRATA_FN V operator()(V x, V weight) const {
    return math::select(x > math::like(x, 0), x, x * weight);
  }
};
// scale * x above zero, scale * alpha * (exp(input_scale * x) - 1) below: elu, selu and celu.
template <class T> struct Elu : FloatOnly {
  static constexpr int kInputs = 1;
  T alpha, scale, input_scale;
  template <class V> STRATA_FN V operator()(V x) const {
    const V zero = math::like(x, 0), s = math::number(x, scale);
    return math::select(x > zero, s * x, s * math::number(x, alpha) * math::expm1(math::number(x, input_scale) * x));
  }
};
// Half the square below the knee, a line above: Huber's function, scaled to the slope of the line.
template <class T> struct SmoothAbs : FloatOnly {
  static constexpr int kInputs = 1;
  T knee, slope;
  template <class V> STRATA_FN V operator()(V x) const {
    const V a = math::abs(x), k = math::number(x, knee), half = math::like(x, 0.5), s = math::number(x, slope);
    return math::select(a >= k, (a - half * k) * s, x * x * (half * s / k));
  }
};
template <class T> struct Gelu : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return x * math::normal_cdf(x); }
};
// 0.5 x (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
template <class T> struct GeluTanh : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    const V one = math::like(x, 1),
            u = x * math::like(x, 0.79788456080286536) * math::fma(x * x, math::like(x, 0.044715), one);
    return x * math::like(x, 0.5) * (one + math::tanh(u));
  }
};
template <class T> struct Silu : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return x / (math::like(x, 1) + math::exp_coarse(math::neg(x)));
  }
};
template <class T> struct Mish : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return x * math::tanh(math::max(x, math::like(x, 0)) + math::log1p_exp_neg_abs(x));
  }
};
template <class T> struct Softplus : FloatOnly {
  static constexpr int kInputs = 1;
  T beta, threshold;
  template <class V> STRATA_FN V operator()(V x) const {
    const V s = x * math::number(x, beta);
    const V y = (math::max(s, math::like(x, 0)) + math::log1p_exp_neg_abs(s)) / math::number(x, beta);
    return math::select(s > math::number(x, threshold), x, y);
  }
};
template <class T> struct LogSigmoid : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::min(x, math::like(x, 0)) - math::log1p_exp_neg_abs(x);
  }
};
template <class T> struct Softsign : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return x / (math::like(x, 1) + math::abs(x)); }
};
template <class T> struct Tanhshrink : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const { return x - math::tanh(x); }
};
template <class T> struct Softshrink : FloatOnly {
  static constexpr int kInputs = 1;
  T lambd;
  template <class V> STRATA_FN V operator()(V x) const {
    const V l = math::number(x, lambd), none = x * math::like(x, 0);  // keeps NaN and the sign
    return math::select(x > l, x - l, math::select(x < math::neg(l), x + l, none));
  }
};
template <class T> struct Hardshrink : FloatOnly {
  static constexpr int kInputs = 1;
  T lambd;
  template <class V> STRATA_FN V operator()(V x) const {
    const V l = math::number(x, lambd);
    return math::select(math::both(x >= math::neg(l), x <= l), math::like(x, 0), x);
  }
};
template <class T> struct Threshold {
  static constexpr int kInputs = 1;
  T threshold, value;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::select(x <= math::number(x, threshold), math::number(x, value), x);
  }
};
template <class T> struct Hardtanh {
  static constexpr int kInputs = 1;
  T low, high;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::min(math::max(x, math::number(x, low)), math::number(x, high));
  }
};
template <class T> struct Hardsigmoid : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return math::min(math::max(x + math::like(x, 3), math::like(x, 0)), math::like(x, 6)) / math::like(x, 6);
  }
};
template <class T> struct Hardswish : FloatOnly {
  static constexpr int kInputs = 1;
  template <class V> STRATA_FN V operator()(V x) const {
    return x * math::min(math::max(x + math::like(x, 3), math::like(x, 0)), math::like(x, 6)) / math::like(x, 6);
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
