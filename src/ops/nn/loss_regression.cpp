// Regression losses.
#include <fmt/core.h>

#include <numbers>

#include "autograd/autograd.h"
#include "base/warning.h"
#include "device/functors/activations.h"
#include "ops/check_dtype.h"
#include "ops/nn/loss_common.h"
#include "ops/pointwise/pointwise.h"
#include "strata/args/nn/loss_regression.h"
#include "strata/ops/movement/repeat.h"
#include "tensor/package_name.h"

namespace strata {
namespace {

// With weights the mean is weighted too.
Tensor weighted(const char* op, const Tensor& loss, const Tensor& weight, LossReduction reduction) {
  if (!weight) return reduced(loss, reduction);
  STRATA_CHECK(weight->same_shape(*loss), Value, "{}: inputs and weight must have the same size, got {} and {}", op,
               to_string(loss.shape()), to_string(weight.shape()));
  const Tensor scaled = mul(loss, weight);
  if (reduction == LossReduction::Mean) return div(sum(scaled), sum(weight));
  return reduced(scaled, reduction);
}

// Broadcasts before promoting, as PyTorch does: a zero-dimensional tensor counts like any other.
Tensor difference(const Tensor& input, const Tensor& target) {
  if (!input->same_shape(*target)) [[unlikely]]
    warn(
      fmt::format("Using a target size ({0}.Size({1})) that is different to the input size ({0}.Size({2})). This will "
                  "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                  package_name, to_string(target.shape()), to_string(input.shape())));
  if (input.dtype() == target.dtype() || input.dim() == target.dim()) return sub(input, target);
  const std::vector<Tensor> both = broadcast_tensors(TensorList({input, target}));
  return sub(both[0], both[1]);
}
// Functions of a difference: in place, unless a gradient needs it.
Tensor squared(const Tensor& d) { return d.requires_grad() ? square(d) : square_(d); }
Tensor magnitude(const Tensor& d) { return d.requires_grad() || is_complex(d.dtype()) ? abs(d) : abs_(d); }
Tensor smoothed(const Tensor& d, double knee, double slope) {
  return d.requires_grad() ? smooth_abs(d, knee, slope) : smooth_abs_(d, knee, slope);
}

}  // namespace

STRATA_OP(smooth_abs, "smooth_abs(Tensor input, float knee, float slope) -> Tensor")
  .doc("slope / knee * input² / 2 below the knee, slope * (|input| - knee / 2) above.")
  .pointwise<fn::SmoothAbs>()
  .saves({"input"})
  .grad([](const grads::smooth_abs& c, const Tensor& g) -> Grads {
    return {mul(g, mul(clamp(c.input(), -c.knee(), c.knee()), c.slope() / c.knee()))};
  })
  .inplace()
  .helper()
  .samples({"f(3,4), 1.0, 1.0", "f(3,4), 0.5, 2.0"});

STRATA_OP(mse_loss,
          "nn.functional.mse_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str "
          "reduction='mean', Tensor? weight=None) -> Tensor")
  .doc("The squared difference.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction, const Tensor& weight) {
    const LossReduction r = reduction_of("mse_loss", average, reduce, reduction);
    const Tensor apart = difference(input, target);
    refuse_integers(apart, "mse_loss");
    return weighted("mse_loss", squared(apart), weight, r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(3,4), reduction='sum'", "f(3,4), f(3,4), reduction='none'",
            "f(3,4), f(3,4), weight=p(3,4)"})
  .error("f(3,4), f(2,4)", ErrorKind::Runtime, "")
  .error("f(3,4), f(3,4), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

STRATA_OP(l1_loss,
          "nn.functional.l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str "
          "reduction='mean', Tensor? weight=None) -> Tensor")
  .doc("The absolute difference.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction, const Tensor& weight) {
    const LossReduction r = reduction_of("l1_loss", average, reduce, reduction);
    return weighted("l1_loss", magnitude(difference(input, target)), weight, r);
  })
  .autocast(Autocast::Float32)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(3,4), reduction='sum'", "f(3,4), f(3,4), reduction='none'"})
  .error("f(3,4), f(3,4), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

STRATA_OP(smooth_l1_loss,
          "nn.functional.smooth_l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str "
          "reduction='mean', float beta=1.0) -> Tensor")
  .doc("Half the squared difference over beta below beta, the absolute difference minus beta/2 above.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction, double beta) {
    STRATA_CHECK(beta >= 0, Runtime, "smooth_l1_loss: beta must be non-negative, got {}", beta);
    const LossReduction r = reduction_of("smooth_l1_loss", average, reduce, reduction);
    const Tensor d = difference(input, target);
    return reduced(beta == 0 ? magnitude(d) : smoothed(d, beta, 1), r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(3,4), reduction='sum', beta=0.5",
            "f(3,4), f(3,4), reduction='none', beta=0.0"})
  .error("f(3), f(3), beta=-1.0", ErrorKind::Runtime, "beta must be non-negative");

STRATA_OP(huber_loss,
          "nn.functional.huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? "
          "weight=None) -> Tensor")
  .doc("Half the squared difference below delta, delta * (the absolute difference - delta/2) above.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::string_view reduction, double delta,
                const Tensor& weight) {
    STRATA_CHECK(delta > 0, Runtime, "huber_loss: delta must be positive, got {}", delta);
    const LossReduction r = reduction_of("huber_loss", std::nullopt, std::nullopt, reduction);
    const Tensor loss = smoothed(difference(input, target), delta, delta);
    return weighted("huber_loss", is_floating(input.dtype()) ? to(loss, input.dtype()) : loss, weight, r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(3,4), 'sum', 0.5"})
  .error("f(3), f(3), delta=0.0", ErrorKind::Runtime, "delta must be positive");

STRATA_OP(poisson_nll_loss,
          "nn.functional.poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, bool? "
          "size_average=None, float eps=1e-8, bool? reduce=None, "
          "str reduction='mean') -> Tensor")
  .doc("The negative log likelihood of a Poisson distribution.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, bool log_input, bool full, std::optional<bool> average,
                double eps, std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("poisson_nll_loss", average, reduce, reduction);
    Tensor loss = log_input ? sub(exp(input), mul(target, input)) : sub(input, mul(target, log(add(input, eps))));
    if (full) {
      const Tensor large = gt(target, 1), safe = where(large, target, 1.0);
      const Tensor stirling = add(sub(mul(safe, log(safe)), safe), mul(log(mul(safe, 2 * std::numbers::pi)), 0.5));
      loss = add(loss, where(large, stirling, 0.0));
    }
    return reduced(loss, r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), p(3,4)", "p(3,4), p(3,4), False, True", "f(3,4), p(3,4), full=True, reduction='sum'"})
  .error("f(3), f(3), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

STRATA_OP(gaussian_nll_loss,
          "nn.functional.gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float eps=1e-6, "
          "str reduction='mean') -> Tensor")
  .doc("The negative log likelihood of a normal distribution of the given variance.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, const Tensor& var, bool full, double eps,
                std::string_view reduction) {
    const LossReduction r = reduction_of("gaussian_nll_loss", std::nullopt, std::nullopt, reduction);
    refuse_integers(var, "gaussian_nll_loss");
    Tensor variance = var;
    if (!var->same_shape(*input) && var.dim() > 0) {
      const Shape lead = input.shape().first(input.shape().size() - (input.dim() ? 1 : 0));
      if (std::equal(lead.begin(), lead.end(), var.shape().begin(), var.shape().end())) variance = unsqueeze(var, -1);
      else {
        bool fits = var.dim() == input.dim();
        for (int d = 0; fits && d + 1 < var.dim(); ++d) fits = var.size(d) == input.size(d);
        STRATA_CHECK((fits && var.size(-1) == 1) || var.numel() == 1, Value,
                     "gaussian_nll_loss: var is of incorrect size {} for input {}", to_string(var.shape()),
                     to_string(input.shape()));
      }
    }
    {
      const autograd::NoGrad no_grad;
      STRATA_CHECK(variance.numel() == 0 || variance.is_meta() || !sum(to(lt(variance, 0.0), DType::I64)).item<bool>(),
                   Value, "gaussian_nll_loss: var has negative entries");
    }
    // The gradient ignores the clamp.
    const Tensor safe = add(variance, autograd::detach(sub(clamp_min(variance, eps), variance)));
    Tensor loss = mul(add(log(safe), div(squared(difference(input, target)), safe)), 0.5);
    if (full) loss = add(loss, 0.5 * std::log(2 * std::numbers::pi));
    return reduced(loss, r);
  })
  .samples({"f(3,4), f(3,4), p(3,4)", "f(3,4), f(3,4), p(3), True", "f(3,4), f(3,4), p(3,1), reduction='sum'"})
  .error("f(3,4), f(3,4), p(2,4)", ErrorKind::Value, "incorrect size");

STRATA_OP(kl_div,
          "nn.functional.kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str "
          "reduction='mean', bool log_target=False) -> Tensor")
  .doc("target * (log(target) - input), the Kullback-Leibler divergence; input holds log-probabilities.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction, bool log_target) {
    const LossReduction r = reduction_of("kl_div", average, reduce, reduction);
    for (const Tensor& t : {input, target}) refuse_integers(t, "kl_div");
    const Tensor loss =
      log_target ? mul(exp(target), sub(target, input)) : sub(xlogy(target, target), mul(target, input));
    if (r != LossReduction::BatchMean) return reduced(loss, r);
    return div(sum(loss), static_cast<double>(input.dim() ? input.size(0) : 1));
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), p(3,4)", "f(3,4), f(3,4), log_target=True", "f(3,4), p(3,4), reduction='batchmean'"})
  .error("f(3), p(3), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

}  // namespace strata
