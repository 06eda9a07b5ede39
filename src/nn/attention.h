// Multi-head attention.
#pragma once
#include <array>
#include <optional>

#include "strata/nn/linear.h"

namespace strata::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;
  bool bias = true, add_bias_kv = false, add_zero_attn = false;
  std::optional<int64_t> kdim = {}, vdim = {};  // widths of key and value; embed_dim unless given
  bool batch_first = false;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

struct AttentionArguments {
  Tensor key_padding_mask = {};  // [batch, source]: true or -inf masks
  bool need_weights = true;
  Tensor attn_mask = {};  // [target, source] or [batch * heads, target, source]: true or -inf masks
  bool average_attn_weights = true;
};

// Multi-head attention with learned projections, over [steps, batch, features].
class STRATA_API MultiheadAttention : public Module {
 public:
  using Options = MultiheadAttentionOptions;
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {});
  MultiheadAttention(None) : Module(none) {}

  struct Result {
    Tensor output, weights;  // weights are undefined unless requested
  };
  Result operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionArguments& arguments = {}) const;
  const Options& options() const;
  int64_t embed_dim() const;
  int64_t num_heads() const;
  Tensor& in_proj_weight() const;
  Tensor& in_proj_bias() const;
  Linear out_proj() const;

 private:
  struct State;
  State& own() const;
  Result run(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionArguments& arguments) const;
};

}  // namespace strata::nn
