// Functions of nn::functional that cannot be op records: they take a function or more arguments than an op may have, or
// draw random numbers.
#pragma once
#include <functional>

#include "nn/arguments.h"
#include "nn/module.h"

namespace strata::nn {

// The distance of two tensors [batch, features]: [batch].
using DistanceFunction = std::function<Tensor(const Tensor&, const Tensor&)>;

struct TripletMarginWithDistanceLossOptions {
  DistanceFunction distance_function = {};  // pairwise_distance unless given
  double margin = 1;
  bool swap = false;  // uses the smaller of the negative's distances to the anchor and to the positive
  std::string reduction = "mean";
};

struct MultiHeadAttentionForwardOptions {
  bool training = true;
  Tensor key_padding_mask = {};
  bool need_weights = true;
  Tensor attn_mask = {};
  bool use_separate_proj_weight = false;  // q_, k_ and v_proj_weight instead of in_proj_weight
  Tensor q_proj_weight = {}, k_proj_weight = {}, v_proj_weight = {};
  Tensor static_k = {}, static_v = {};
  bool average_attn_weights = true;
  bool is_causal = false;  // a hint that needs attn_mask
};

namespace functional {

// The maximum of output_size windows of [N, C, ...]; a size of nullopt keeps the input's.
STRATA_API Tensor adaptive_max_pool1d(const Tensor& input, const KeepArg& output_size);
STRATA_API Tensor adaptive_max_pool2d(const Tensor& input, const KeepArg& output_size);
STRATA_API Tensor adaptive_max_pool3d(const Tensor& input, const KeepArg& output_size);
// Multi-head attention: projections, softmax(q @ k.T) @ v per head, output projection. Returns output and weights,
// which are undefined unless requested.
STRATA_API std::pair<Tensor, Tensor> multi_head_attention_forward(
  const Tensor& query, const Tensor& key, const Tensor& value, int64_t embed_dim_to_check, int64_t num_heads,
  const Tensor& in_proj_weight, const Tensor& in_proj_bias, const Tensor& bias_k, const Tensor& bias_v,
  bool add_zero_attn, double dropout_p, const Tensor& out_proj_weight, const Tensor& out_proj_bias,
  const MultiHeadAttentionForwardOptions& options = {});

// max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance function d.
STRATA_API Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                                    const Tensor& negative,
                                                    const TripletMarginWithDistanceLossOptions& options = {});
// Samples from the Gumbel-softmax distribution; one-hot samples with the soft gradient if `hard`.
STRATA_API Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int64_t dim = -1);

}  // namespace functional
}  // namespace strata::nn
