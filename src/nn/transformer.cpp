// Transformer.
#include "nn/transformer.h"

#include <cmath>

#include "nn/layer_count.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::nn {

// The feed-forward part of both kinds of layers, and their norms and dropouts.
struct TransformerLayerState : ModuleState {
  int64_t d_model = 0, nhead = 0;
  TransformerLayerOptions options;
  MultiheadAttention self_attn = none, multihead_attn = none;
  Linear linear1 = none, linear2 = none;
  Dropout dropout = none;
  std::vector<LayerNorm> norms;
  std::vector<Dropout> dropouts;

  Tensor feed_forward(const Tensor& x) const {
    const Tensor h = linear1(x);
    return linear2(dropout(options.activation == "gelu" ? functional::gelu(h) : relu(h)));
  }
  Tensor attend(const MultiheadAttention& attention, const Tensor& x, const Tensor& memory, const Tensor& mask,
                const Tensor& padding) const {
    return attention(x, memory, memory, {.key_padding_mask = padding, .need_weights = false, .attn_mask = mask}).output;
  }
};

namespace {

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .dtype = o.dtype, .device = o.device};
}

template <class Add> void build(TransformerLayerState& s, int norms, const Add& add) {
  const TransformerLayerOptions& o = s.options;
  STRATA_CHECK(o.activation == "relu" || o.activation == "gelu", Runtime, "activation should be relu/gelu, not {}",
               o.activation);
  const LinearOptions linear{.bias = o.bias, .dtype = o.dtype, .device = o.device};
  s.linear1 = add("linear1", Linear(s.d_model, o.dim_feedforward, linear));
  s.dropout = add("dropout", Dropout(o.dropout));
  s.linear2 = add("linear2", Linear(o.dim_feedforward, s.d_model, linear));
  for (int i = 1; i <= norms; ++i)
    s.norms.push_back(
      add("norm" + std::to_string(i),
          LayerNorm(s.d_model, {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype, .device = o.device})));
  for (int i = 1; i <= norms; ++i) s.dropouts.push_back(add("dropout" + std::to_string(i), Dropout(o.dropout)));
}

// A new module with the values of another one; restores the generator after the constructor's draws.
template <class Layer>
Layer copy_of(const Layer& layer, int64_t d_model, int64_t nhead, const TransformerLayerOptions& o) {
  const Generator::State before = default_generator().state();
  Layer made(d_model, nhead, o);
  default_generator().set_state(before);
  made.load_state_dict(layer.state_dict());
  made.train(layer.is_training());
  return made;
}

}  // namespace

struct TransformerEncoderLayer::State final : TransformerLayerState {};
TransformerEncoderLayer::State& TransformerEncoderLayer::own() const { return static_cast<State&>(state()); }

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead, const Options& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "TransformerEncoderLayer";
  s.d_model = d_model;
  s.nhead = nhead;
  s.options = o;
  s.self_attn = add("self_attn", MultiheadAttention(d_model, nhead, attention_options(o)));
  build(s, 2, [this](const std::string& name, auto module) { return add(name, module); });
}
TransformerEncoderLayer TransformerEncoderLayer::clone() const {
  return copy_of(*this, own().d_model, own().nhead, own().options);
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderArguments& a) const {
  const State& s = own();
  const auto attend = [&](const Tensor& x) {
    return s.dropouts[0](s.attend(s.self_attn, x, x, a.mask, a.key_padding_mask));
  };
  if (s.options.norm_first) {
    const Tensor x = strata::add(src, attend(s.norms[0](src)));
    return strata::add(x, s.dropouts[1](s.feed_forward(s.norms[1](x))));
  }
  const Tensor x = s.norms[0](strata::add(src, attend(src)));
  return s.norms[1](strata::add(x, s.dropouts[1](s.feed_forward(x))));
}
Tensor TransformerEncoderLayer::operator()(const Tensor& src, const EncoderArguments& a) const {
  if (!has_hooks()) [[likely]]
    return forward(src, a);
  return with_hooks({src}, [&](const std::vector<Tensor>& in) { return std::vector{forward(in[0], a)}; })[0];
}

struct TransformerDecoderLayer::State final : TransformerLayerState {};
TransformerDecoderLayer::State& TransformerDecoderLayer::own() const { return static_cast<State&>(state()); }

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead, const Options& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "TransformerDecoderLayer";
  s.d_model = d_model;
  s.nhead = nhead;
  s.options = o;
  s.self_attn = add("self_attn", MultiheadAttention(d_model, nhead, attention_options(o)));
  s.multihead_attn = add("multihead_attn", MultiheadAttention(d_model, nhead, attention_options(o)));
  build(s, 3, [this](const std::string& name, auto module) { return add(name, module); });
}
TransformerDecoderLayer TransformerDecoderLayer::clone() const {
  return copy_of(*this, own().d_model, own().nhead, own().options);
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const DecoderArguments& a) const {
  const State& s = own();
  const auto look_back = [&](const Tensor& x) {
    return s.dropouts[0](s.attend(s.self_attn, x, x, a.tgt_mask, a.tgt_key_padding_mask));
  };
  const auto look_up = [&](const Tensor& x) {
    return s.dropouts[1](s.attend(s.multihead_attn, x, memory, a.memory_mask, a.memory_key_padding_mask));
  };
  if (s.options.norm_first) {
    Tensor x = strata::add(tgt, look_back(s.norms[0](tgt)));
    x = strata::add(x, look_up(s.norms[1](x)));
    return strata::add(x, s.dropouts[2](s.feed_forward(s.norms[2](x))));
  }
  Tensor x = s.norms[0](strata::add(tgt, look_back(tgt)));
  x = s.norms[1](strata::add(x, look_up(x)));
  return s.norms[2](strata::add(x, s.dropouts[2](s.feed_forward(x))));
}
Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory, const DecoderArguments& a) const {
  if (!has_hooks()) [[likely]]
    return forward(tgt, memory, a);
  return with_hooks({tgt, memory},
                    [&](const std::vector<Tensor>& in) { return std::vector{forward(in[0], in[1], a)}; })[0];
}

struct TransformerEncoder::State final : ModuleState {
  std::vector<TransformerEncoderLayer> layers;
  LayerNorm norm = none;
};
TransformerEncoder::State& TransformerEncoder::own() const { return static_cast<State&>(state()); }

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers, const LayerNorm& norm)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "TransformerEncoder";
  check_layers(num_layers, s.kind.c_str());
  ModuleList list;
  for (int64_t i = 0; i < num_layers; ++i) list.push_back(s.layers.emplace_back(layer.clone()));
  add("layers", list);
  if (norm) s.norm = add("norm", norm);
}
Tensor TransformerEncoder::forward(const Tensor& src, const EncoderArguments& a) const {
  Tensor x = src;
  for (const auto& layer : own().layers) x = layer(x, a);
  return own().norm ? own().norm(x) : x;
}
Tensor TransformerEncoder::operator()(const Tensor& src, const EncoderArguments& a) const {
  if (!has_hooks()) [[likely]]
    return forward(src, a);
  return with_hooks({src}, [&](const std::vector<Tensor>& in) { return std::vector{forward(in[0], a)}; })[0];
}

struct TransformerDecoder::State final : ModuleState {
  std::vector<TransformerDecoderLayer> layers;
  LayerNorm norm = none;
};
TransformerDecoder::State& TransformerDecoder::own() const { return static_cast<State&>(state()); }

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers, const LayerNorm& norm)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "TransformerDecoder";
  check_layers(num_layers, s.kind.c_str());
  ModuleList list;
  for (int64_t i = 0; i < num_layers; ++i) list.push_back(s.layers.emplace_back(layer.clone()));
  add("layers", list);
  if (norm) s.norm = add("norm", norm);
}
Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const DecoderArguments& a) const {
  Tensor x = tgt;
  for (const auto& layer : own().layers) x = layer(x, memory, a);
  return own().norm ? own().norm(x) : x;
}
Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory, const DecoderArguments& a) const {
  if (!has_hooks()) [[likely]]
    return forward(tgt, memory, a);
  return with_hooks({tgt, memory},
                    [&](const std::vector<Tensor>& in) { return std::vector{forward(in[0], in[1], a)}; })[0];
}

struct Transformer::State final : ModuleState {
  Options options;
  TransformerEncoder encoder = none;
  TransformerDecoder decoder = none;
};
Transformer::State& Transformer::own() const { return static_cast<State&>(state()); }
TransformerEncoder Transformer::encoder() const { return own().encoder; }
TransformerDecoder Transformer::decoder() const { return own().decoder; }

Transformer::Transformer(const Options& o) : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "Transformer";
  s.options = o;
  const LayerNormOptions norm{
    .eps = o.layer.layer_norm_eps, .bias = o.layer.bias, .dtype = o.layer.dtype, .device = o.layer.device};
  const TransformerEncoderLayer encoder_layer(o.d_model, o.nhead, o.layer);
  s.encoder = add("encoder", TransformerEncoder(encoder_layer, o.num_encoder_layers, LayerNorm(o.d_model, norm)));
  const TransformerDecoderLayer decoder_layer(o.d_model, o.nhead, o.layer);
  s.decoder = add("decoder", TransformerDecoder(decoder_layer, o.num_decoder_layers, LayerNorm(o.d_model, norm)));
  for (const Tensor& p : parameters())
    if (p.dim() > 1) init::xavier_uniform_(p);
}
Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const EncoderArguments& src_masks,
                            const DecoderArguments& tgt_masks) const {
  const State& s = own();
  STRATA_CHECK(src.dim() > 0 && tgt.dim() > 0 && src.size(-1) == s.options.d_model && tgt.size(-1) == s.options.d_model,
               Runtime, "the feature number of src and tgt must be equal to d_model ({}), got shapes {} and {}",
               s.options.d_model, to_string(src.shape()), to_string(tgt.shape()));
  return s.decoder(tgt, s.encoder(src, src_masks), tgt_masks);
}
Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt, const EncoderArguments& src_masks,
                               const DecoderArguments& tgt_masks) const {
  if (!has_hooks()) [[likely]]
    return forward(src, tgt, src_masks, tgt_masks);
  return with_hooks({src, tgt}, [&](const std::vector<Tensor>& in) {
    return std::vector{forward(in[0], in[1], src_masks, tgt_masks)};
  })[0];
}
Tensor Transformer::generate_square_subsequent_mask(int64_t size, std::optional<DType> dtype) {
  return triu(full({size, size}, -HUGE_VAL, dtype), 1);
}

}  // namespace strata::nn
