// Multi-head attention.
#include "nn/attention.h"

#include "nn/functional.h"
#include "strata/ops.h"

namespace strata::nn {

struct MultiheadAttention::State final : ModuleState {
  int64_t embed_dim = 0, num_heads = 0;
  Options options;
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj = none;
};
MultiheadAttention::State& MultiheadAttention::own() const { return static_cast<State&>(state()); }
const MultiheadAttention::Options& MultiheadAttention::options() const { return own().options; }
int64_t MultiheadAttention::embed_dim() const { return own().embed_dim; }
int64_t MultiheadAttention::num_heads() const { return own().num_heads; }
Tensor& MultiheadAttention::in_proj_weight() const { return own().in_proj_weight; }
Tensor& MultiheadAttention::in_proj_bias() const { return own().in_proj_bias; }
Linear MultiheadAttention::out_proj() const { return own().out_proj; }

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, const Options& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "MultiheadAttention";
  STRATA_CHECK(embed_dim > 0 && num_heads > 0, Value, "embed_dim and num_heads must be greater than 0, got {} and {}",
               embed_dim, num_heads);
  STRATA_CHECK(embed_dim % num_heads == 0, Value, "embed_dim must be divisible by num_heads, got {} and {}", embed_dim,
               num_heads);
  s.embed_dim = embed_dim;
  s.num_heads = num_heads;
  s.options = o;
  const DType dtype = o.dtype.value_or(default_dtype());
  const Device device = o.device.value_or(Device());
  const auto add_weight = [&](const char* name, Tensor& slot, bool made, IntList shape) {
    if (made) slot = empty(shape, dtype, device).set_requires_grad();
    s.parameters.push_back({name, &slot});
  };
  const int64_t kdim = o.kdim.value_or(embed_dim), vdim = o.vdim.value_or(embed_dim);
  const bool same = kdim == embed_dim && vdim == embed_dim;
  add_weight("in_proj_weight", s.in_proj_weight, same, {3 * embed_dim, embed_dim});
  add_weight("q_proj_weight", s.q_proj_weight, !same, {embed_dim, embed_dim});
  add_weight("k_proj_weight", s.k_proj_weight, !same, {embed_dim, kdim});
  add_weight("v_proj_weight", s.v_proj_weight, !same, {embed_dim, vdim});
  add_weight("in_proj_bias", s.in_proj_bias, o.bias, {3 * embed_dim});
  s.out_proj = add("out_proj", Linear(embed_dim, embed_dim, {.bias = o.bias, .dtype = o.dtype, .device = o.device}));
  add_weight("bias_k", s.bias_k, o.add_bias_kv, {1, 1, embed_dim});
  add_weight("bias_v", s.bias_v, o.add_bias_kv, {1, 1, embed_dim});
  for (const Tensor& w : {s.in_proj_weight, s.q_proj_weight, s.k_proj_weight, s.v_proj_weight})
    if (w) init::xavier_uniform_(w);
  if (o.bias) {
    init::zeros_(s.in_proj_bias);
    init::zeros_(s.out_proj.bias());
  }
  if (o.add_bias_kv) {
    init::xavier_normal_(s.bias_k);
    init::xavier_normal_(s.bias_v);
  }
}

MultiheadAttention::Result MultiheadAttention::run(const Tensor& query, const Tensor& key, const Tensor& value,
                                                   const AttentionArguments& a) const {
  const State& s = own();
  const bool turn = s.options.batch_first && query.dim() == 3;
  const auto by_step = [&](const Tensor& t) { return turn ? transpose(t, 0, 1) : t; };
  const Tensor q = by_step(query), k = key.get() == query.get() ? q : by_step(key),
               v = value.get() == key.get() ? k : by_step(value);
  const auto [output, weights] = functional::multi_head_attention_forward(
    q, k, v, s.embed_dim, s.num_heads, s.in_proj_weight, s.in_proj_bias, s.bias_k, s.bias_v, s.options.add_zero_attn,
    s.options.dropout, s.out_proj.weight(), s.out_proj.bias(),
    {.training = s.training,
     .key_padding_mask = a.key_padding_mask,
     .need_weights = a.need_weights,
     .attn_mask = a.attn_mask,
     .use_separate_proj_weight = !s.in_proj_weight,
     .q_proj_weight = s.q_proj_weight,
     .k_proj_weight = s.k_proj_weight,
     .v_proj_weight = s.v_proj_weight,
     .average_attn_weights = a.average_attn_weights});
  return {by_step(output), weights};
}

MultiheadAttention::Result MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                                          const AttentionArguments& arguments) const {
  if (!has_hooks()) [[likely]]
    return run(query, key, value, arguments);
  const auto out = with_hooks({query, key, value}, [&](const std::vector<Tensor>& in) {
    const Result r = run(in[0], in[1], in[2], arguments);
    return std::vector{r.output, r.weights};
  });
  return {out[0], out[1]};
}

}  // namespace strata::nn
