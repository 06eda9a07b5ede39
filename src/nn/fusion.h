// Folds an eval-mode batch norm into the preceding layer.
#pragma once
#include "strata/nn/linear.h"
#include "strata/nn/norm.h"

namespace strata::nn::utils {

// Weight and bias of the convolution that is equivalent to a convolution and an eval-mode batch norm. Undefined conv_b,
// bn_w and bn_b mean zeros, ones and zeros; transpose: for a transposed convolution.
STRATA_API std::pair<Tensor, Tensor> fuse_conv_bn_weights(const Tensor& conv_w, const Tensor& conv_b,
                                                          const Tensor& bn_rm, const Tensor& bn_rv, double bn_eps,
                                                          const Tensor& bn_w, const Tensor& bn_b,
                                                          bool transpose = false);
// The same for a linear layer.
inline std::pair<Tensor, Tensor> fuse_linear_bn_weights(const Tensor& linear_w, const Tensor& linear_b,
                                                        const Tensor& bn_rm, const Tensor& bn_rv, double bn_eps,
                                                        const Tensor& bn_w, const Tensor& bn_b) {
  return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b);
}
// A new linear layer that is equivalent to both; both must be in evaluation mode.
STRATA_API Linear fuse_linear_bn_eval(const Linear& linear, const BatchNorm1d& bn);

namespace detail {
// Calls make() without advancing the default generator: the values it draws are replaced.
STRATA_API void without_drawing(const std::function<void()>& make);
STRATA_API void check_fusable(const Module& layer, const Module& bn, const Tensor& running_mean);
}  // namespace detail

// A new convolution that is equivalent to both; both must be in evaluation mode.
template <class Conv, class Norm> Conv fuse_conv_bn_eval(const Conv& conv, const Norm& bn, bool transpose = false) {
  detail::check_fusable(conv, bn, bn.running_mean());
  typename Conv::Options o;
  o.stride = conv.stride();
  o.padding = conv.padding();
  o.dilation = conv.dilation();
  o.groups = conv.groups();
  o.padding_mode = conv.padding_mode();
  o.dtype = conv.weight().dtype();
  o.device = conv.weight().device();
  if constexpr (requires { conv.output_padding(); }) o.output_padding = conv.output_padding();
  Conv fused = none;
  detail::without_drawing([&] { fused = Conv(conv.in_channels(), conv.out_channels(), conv.kernel_size(), o); });
  std::tie(fused.weight(), fused.bias()) = fuse_conv_bn_weights(
    conv.weight(), conv.bias(), bn.running_mean(), bn.running_var(), bn.eps(), bn.weight(), bn.bias(), transpose);
  fused.eval();
  return fused;
}

}  // namespace strata::nn::utils
