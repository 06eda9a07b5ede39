// Functions of nn::functional that cannot be op records.
#include "nn/functional.h"

#include "autograd/autograd.h"
#include "nn/functional_arguments.h"
#include "strata/ops.h"

namespace strata::nn::functional {

Tensor adaptive_max_pool1d(const Tensor& input, const KeepArg& size) {
  return adaptive_max_pool1d_with_indices(input, size)[0];
}
Tensor adaptive_max_pool2d(const Tensor& input, const KeepArg& size) {
  return adaptive_max_pool2d_with_indices(input, size)[0];
}
Tensor adaptive_max_pool3d(const Tensor& input, const KeepArg& size) {
  return adaptive_max_pool3d_with_indices(input, size)[0];
}

std::pair<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       int64_t embed_dim_to_check, int64_t num_heads,
                                                       const Tensor& in_proj_weight, const Tensor& in_proj_bias,
                                                       const Tensor& bias_k, const Tensor& bias_v, bool add_zero_attn,
                                                       double dropout_p, const Tensor& out_proj_weight,
                                                       const Tensor& out_proj_bias,
                                                       const MultiHeadAttentionForwardOptions& o) {
  STRATA_CHECK(query.dim() < 2 || query.dim() > 3 || query.size(-1) == embed_dim_to_check, Runtime,
               "multi_head_attention_forward: was expecting embedding dimension of {}, but got {}", embed_dim_to_check,
               query.size(-1));
  STRATA_CHECK(!o.is_causal || o.attn_mask, Runtime,
               "multi_head_attention_forward: need attn_mask if specifying the is_causal hint");
  std::vector<Tensor> in_proj{in_proj_weight, in_proj_bias};
  if (o.use_separate_proj_weight) in_proj = {o.q_proj_weight, o.k_proj_weight, o.v_proj_weight, in_proj_bias};
  const auto out =
    _multi_head_attention(query, key, value, num_heads, in_proj, {out_proj_weight, out_proj_bias}, {bias_k, bias_v},
                          {o.static_k, o.static_v}, add_zero_attn, o.training ? dropout_p : 0.0, o.key_padding_mask,
                          o.attn_mask, o.need_weights, o.average_attn_weights);
  return {out[0], o.need_weights ? out[1] : Tensor()};
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletMarginWithDistanceLossOptions& o) {
  STRATA_CHECK(o.margin > 0, Value, "triplet_margin_with_distance_loss: margin must be greater than 0, got {}",
               o.margin);
  STRATA_CHECK(o.reduction == "mean" || o.reduction == "sum" || o.reduction == "none", Value,
               "triplet_margin_with_distance_loss: {} is not a valid value for reduction; use 'none', 'mean' or 'sum'",
               o.reduction);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    const Tensor d = o.distance_function ? o.distance_function(a, b) : functional::pairwise_distance(a, b);
    STRATA_CHECK(d, Value, "triplet_margin_with_distance_loss: the distance function returned an undefined tensor");
    return d;
  };
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (o.swap) far = minimum(far, distance(positive, negative));
  const Tensor loss = clamp_min(add(sub(near, far), o.margin), 0.0);
  return o.reduction == "none" ? loss : o.reduction == "mean" ? mean(loss) : sum(loss);
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int64_t dim) {
  const auto minus_log = [](const Tensor& t) { return neg(log(clamp(t, 1e-20))); };
  const Tensor noise = minus_log(minus_log(rand_like(logits)));
  const Tensor soft = functional::softmax(div(add(logits, noise), tau), dim);
  if (!hard) return soft;
  const Tensor one = scatter(zeros_like(logits), dim, argmax(soft, dim, true), 1.0);
  return add(sub(one, autograd::detach(soft)), soft);
}

}  // namespace strata::nn::functional
