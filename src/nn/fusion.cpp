// Folds an eval-mode batch norm into the preceding layer.
#include "nn/fusion.h"

#include "autograd/autograd.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::nn::utils {

std::pair<Tensor, Tensor> fuse_conv_bn_weights(const Tensor& conv_w, const Tensor& conv_b, const Tensor& bn_rm,
                                               const Tensor& bn_rv, double bn_eps, const Tensor& bn_w,
                                               const Tensor& bn_b, bool transpose) {
  const autograd::NoGrad off;
  const Tensor ones = bn_w ? bn_w : ones_like(bn_rm), zeros = bn_b ? bn_b : zeros_like(bn_rm);
  const Tensor scale = div(ones, sqrt(add(bn_rv, bn_eps)));
  std::vector<int64_t> shape(static_cast<size_t>(conv_w.dim()), 1);
  shape[transpose ? 1 : 0] = -1;
  Tensor weight = mul(conv_w, reshape(scale, shape));
  Tensor bias = add(mul(sub(conv_b ? conv_b : zeros_like(bn_rm), bn_rm), scale), zeros);
  weight.set_requires_grad(conv_w.requires_grad());
  bias.set_requires_grad(!conv_b || conv_b.requires_grad());
  return {weight, bias};
}

void detail::without_drawing(const std::function<void()>& make) {
  const Generator::State before = default_generator().state();
  make();
  default_generator().set_state(before);
}

void detail::check_fusable(const Module& layer, const Module& bn, const Tensor& running_mean) {
  STRATA_CHECK(!layer.is_training() && !bn.is_training(), Value,
               "fusing {} and {} is for evaluation mode only: call eval() of both first", layer.name(), bn.name());
  STRATA_CHECK(running_mean, Value, "{} has no running statistics (track_running_stats=false) to fuse", bn.name());
}

Linear fuse_linear_bn_eval(const Linear& linear, const BatchNorm1d& bn) {
  detail::check_fusable(linear, bn, bn.running_mean());
  Linear fused = none;
  detail::without_drawing([&] {
    fused = Linear(linear.in_features(), linear.out_features(),
                   {.dtype = linear.weight().dtype(), .device = linear.weight().device()});
  });
  std::tie(fused.weight(), fused.bias()) = fuse_conv_bn_weights(linear.weight(), linear.bias(), bn.running_mean(),
                                                                bn.running_var(), bn.eps(), bn.weight(), bn.bias());
  fused.eval();
  return fused;
}

}  // namespace strata::nn::utils
