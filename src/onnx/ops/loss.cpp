// Losses.
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

// -log_p[target] * weight[target], 0 where the target is ignored; the mean is over the weights.
Tensor nll(const NodeCall& c, const Tensor& log_p, const Tensor& target, const Tensor& weight) {
  const std::string_view reduction = c.text("reduction", "mean");
  STRATA_CHECK(reduction == "mean" || reduction == "sum" || reduction == "none", Value, "reduction is '{}'", reduction);
  STRATA_CHECK(log_p.dim() >= 2 && target.dim() == log_p.dim() - 1, Value, "scores {} and labels {}",
               to_string(log_p.shape()), to_string(target.shape()));
  const Tensor labels = cast(target, DType::I64);
  const bool ignores = c.has("ignore_index");
  const Tensor kept = ignores ? ne(labels, c.integer("ignore_index")) : Tensor();
  const Tensor chosen = ignores ? where(kept, labels, 0) : labels;
  Tensor w = weight ? reshape(index_select(weight, 0, reshape(chosen, {chosen.numel()})), chosen.shape()) : Tensor();
  if (ignores) w = w ? mul(w, cast(kept, w.dtype())) : cast(kept, log_p.dtype());
  Tensor loss = neg(squeeze(gather(log_p, 1, unsqueeze(chosen, 1)), 1));
  if (w) loss = ignores ? where(kept, mul(loss, w), 0.0) : mul(loss, w);
  loss = cast(loss, log_p.dtype());
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum(loss);
  return w ? div(sum(loss), sum(w)) : mean(loss);
}
Values negative_log_likelihood(NodeCall& c) { return one(nll(c, c.tensor(0), c.tensor(1), c.maybe(2))); }
Values softmax_cross_entropy(NodeCall& c) {
  const Tensor log_p = log_softmax(c.tensor(0), 1);
  return {Value(nll(c, log_p, c.tensor(1), c.maybe(2))), Value(log_p)};
}

const OpEntry kLoss[] = {
  {"NegativeLogLikelihoodLoss", 12, 2, 3, nullptr, negative_log_likelihood},
  {"SoftmaxCrossEntropyLoss", 12, 2, 3, nullptr, softmax_cross_entropy},
};
}  // namespace

OpTable loss_ops() { return kLoss; }

}  // namespace strata::onnx
