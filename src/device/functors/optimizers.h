// Update rules of the optimizers: one step for one element of a parameter p, given its gradient g and up to three
// numbers of state. Members are the same for the whole tensor and step; everything that depends on the step count is
// computed beforehand, in double (ops/optim/optimizers.cpp).
#if defined(STRATA_SIMD_TARGET) || !defined(STRATA_FUNCTORS_OPTIMIZERS)
#include "device/math.h"
#ifdef STRATA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
#else
#define STRATA_FUNCTORS_OPTIMIZERS
#endif
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {

// The gradient as the rules use it: negated for maximize, with the L2 penalty added. The parameter is scaled if the
// weight decay is decoupled (shrink is then 1 - lr * weight_decay).
template <class T> struct Regularize {
  T sign, decay, shrink;
  template <class V> STRATA_FN V operator()(V& p, V g) const {
    if (sign != T(1)) g = math::neg(g);
    if (decay != T(0)) g = math::fma(math::number(p, decay), p, g);
    if (shrink != T(1)) p = p * math::number(p, shrink);
    return g;
  }
};

// State: momentum buffer. `first`: the buffer is empty and becomes the gradient.
template <class T> struct SgdRule {
  static constexpr int kStates = 1;
  Regularize<T> regularize;
  T lr, momentum, share, nesterov, first;  // share: 1 - dampening
  template <class V> STRATA_FN void operator()(V& p, V g, V& buffer, V&, V&) const {
    g = regularize(p, g);
    if (momentum != T(0)) {
      buffer = first != T(0) ? g : math::fma(math::number(p, momentum), buffer, math::number(p, share) * g);
      g = nesterov != T(0) ? math::fma(math::number(p, momentum), buffer, g) : buffer;
    }
    p = p - math::number(p, lr) * g;
  }
};

// State: mean of g, mean of g², with `amsgrad` the largest mean of g² so far. Adam and AdamW.
template <class T> struct AdamRule {
  static constexpr int kStates = 3;
  Regularize<T> regularize;
  T one_minus_beta1, beta2, one_minus_beta2, root_scale, eps, rate, amsgrad;  // root_scale: 1 / sqrt(1 - beta2^t)
  template <class V> STRATA_FN void operator()(V& p, V g, V& mean, V& square, V& largest) const {
    g = regularize(p, g);
    mean = math::fma(math::number(p, one_minus_beta1), g - mean, mean);
    square = math::fma(math::number(p, one_minus_beta2) * g, g, math::number(p, beta2) * square);
    V v = square;
    if (amsgrad != T(0)) v = largest = math::max(largest, square);
    const V root = math::fma(math::sqrt(v), math::number(p, root_scale), math::number(p, eps));
    p = p - math::number(p, rate) * mean / root;
  }
};

// State: mean of g, mean of g². The step combines this gradient and the mean (Nesterov).
template <class T> struct NadamRule {
  static constexpr int kStates = 2;
  Regularize<T> regularize;
  T one_minus_beta1, beta2, one_minus_beta2, inverse_correction, eps, gradient_rate, mean_rate;
  template <class V> STRATA_FN void operator()(V& p, V g, V& mean, V& square, V&) const {
    g = regularize(p, g);
    mean = math::fma(math::number(p, one_minus_beta1), g - mean, mean);
    square = math::fma(math::number(p, one_minus_beta2) * g, g, math::number(p, beta2) * square);
    const V root = math::sqrt(square * math::number(p, inverse_correction)) + math::number(p, eps);
    p = p - math::fma(math::number(p, gradient_rate), g, math::number(p, mean_rate) * mean) / root;
  }
};

// State: mean of g, mean of g². `adaptive` 0: too few steps to trust the variance, so the plain mean is used.
template <class T> struct RadamRule {
  static constexpr int kStates = 2;
  Regularize<T> regularize;
  T one_minus_beta1, beta2, one_minus_beta2, eps, rate, adaptive;
  template <class V> STRATA_FN void operator()(V& p, V g, V& mean, V& square, V&) const {
    g = regularize(p, g);
    mean = math::fma(math::number(p, one_minus_beta1), g - mean, mean);
    square = math::fma(math::number(p, one_minus_beta2) * g, g, math::number(p, beta2) * square);
    V step = math::number(p, rate) * mean;
    if (adaptive != T(0)) step = step * math::number(p, adaptive) / (math::sqrt(square) + math::number(p, eps));
    p = p - step;
  }
};

// State: mean of g, decaying largest |g|.
template <class T> struct AdamaxRule {
  static constexpr int kStates = 2;
  Regularize<T> regularize;
  T one_minus_beta1, beta2, eps, rate;
  template <class V> STRATA_FN void operator()(V& p, V g, V& mean, V& largest, V&) const {
    g = regularize(p, g);
    mean = math::fma(math::number(p, one_minus_beta1), g - mean, mean);
    largest = math::max(largest * math::number(p, beta2), math::abs(g) + math::number(p, eps));
    p = p - math::number(p, rate) * mean / largest;
  }
};

// State: sum of g².
template <class T> struct AdagradRule {
  static constexpr int kStates = 1;
  Regularize<T> regularize;
  T rate, eps;
  template <class V> STRATA_FN void operator()(V& p, V g, V& sum, V&, V&) const {
    g = regularize(p, g);
    sum = math::fma(g, g, sum);
    p = p - math::number(p, rate) * g / (math::sqrt(sum) + math::number(p, eps));
  }
};

// State: mean of g², mean of the squared steps.
template <class T> struct AdadeltaRule {
  static constexpr int kStates = 2;
  Regularize<T> regularize;
  T rho, one_minus_rho, eps, lr;
  template <class V> STRATA_FN void operator()(V& p, V g, V& square, V& steps, V&) const {
    g = regularize(p, g);
    const V r = math::number(p, rho), rest = math::number(p, one_minus_rho), e = math::number(p, eps);
    square = math::fma(rest * g, g, r * square);
    const V step = math::sqrt(steps + e) / math::sqrt(square + e) * g;
    steps = math::fma(rest * step, step, r * steps);
    p = p - math::number(p, lr) * step;
  }
};

// State: mean of g², momentum buffer, with `centered` the mean of g.
template <class T> struct RmspropRule {
  static constexpr int kStates = 3;
  Regularize<T> regularize;
  T lr, alpha, one_minus_alpha, eps, momentum, centered;
  template <class V> STRATA_FN void operator()(V& p, V g, V& square, V& buffer, V& mean) const {
    g = regularize(p, g);
    const V rest = math::number(p, one_minus_alpha);
    square = math::fma(rest * g, g, math::number(p, alpha) * square);
    V variance = square;
    if (centered != T(0)) {
      mean = math::fma(rest, g - mean, mean);
      variance = square - mean * mean;
    }
    g = g / (math::sqrt(variance) + math::number(p, eps));
    if (momentum != T(0)) g = buffer = math::fma(math::number(p, momentum), buffer, g);
    p = p - math::number(p, lr) * g;
  }
};

// State: the average of the parameter over the steps.
template <class T> struct AsgdRule {
  static constexpr int kStates = 1;
  Regularize<T> regularize;
  T eta, keep, weight;  // keep: 1 - lambd * eta; weight: of this step in the average
  template <class V> STRATA_FN void operator()(V& p, V g, V& average, V&, V&) const {
    g = regularize(p, g);
    p = p * math::number(p, keep) - math::number(p, eta) * g;
    average = weight == T(1) ? p : math::fma(math::number(p, weight), p - average, average);
  }
};

// State: the previous gradient, the step size of the element.
template <class T> struct RpropRule {
  static constexpr int kStates = 2;
  Regularize<T> regularize;
  T shrink_step, grow_step, smallest, largest;
  template <class V> STRATA_FN void operator()(V& p, V g, V& previous, V& step, V&) const {
    g = regularize(p, g);
    const V zero = math::like(p, 0), agreement = g * previous;
    const V factor = math::select(zero < agreement, math::number(p, grow_step),
                                  math::select(agreement < zero, math::number(p, shrink_step), math::like(p, 1)));
    step = math::min(math::max(step * factor, math::number(p, smallest)), math::number(p, largest));
    g = math::select(agreement < zero, zero, g);
    p = p - math::select(math::nonzero(g), math::copysign(step, g), zero);
    previous = g;
  }
};

}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
#ifdef STRATA_SIMD_TARGET
HWY_AFTER_NAMESPACE();
#endif
#endif
