// Transformer: encoder, decoder, their layers, and both together.
#pragma once
#include "nn/attention.h"
#include "nn/containers.h"
#include "strata/nn/dropout.h"
#include "strata/nn/norm.h"

namespace strata::nn {

struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or gelu
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

struct EncoderArguments {
  Tensor mask = {}, key_padding_mask = {};
};
struct DecoderArguments {
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
};

// Self-attention and a feed-forward network, each with a residual connection and a layer norm.
class STRATA_API TransformerEncoderLayer : public Module {
 public:
  using Options = TransformerLayerOptions;
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {});
  TransformerEncoderLayer(None) : Module(none) {}
  TransformerEncoderLayer clone() const;  // an independent layer with the same values; draws no random numbers
  Tensor forward(const Tensor& src, const EncoderArguments& masks) const;
  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  Tensor operator()(const Tensor& src, const EncoderArguments& masks = {}) const;

 private:
  struct State;
  State& own() const;
};

// Self-attention, attention to the encoder's output, and a feed-forward network.
class STRATA_API TransformerDecoderLayer : public Module {
 public:
  using Options = TransformerLayerOptions;
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {});
  TransformerDecoderLayer(None) : Module(none) {}
  TransformerDecoderLayer clone() const;
  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderArguments& masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderArguments& masks = {}) const;

 private:
  struct State;
  State& own() const;
};

// Copies of an encoder layer, one after the other, and an optional norm.
class STRATA_API TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers, const LayerNorm& norm = none);
  TransformerEncoder(None) : Module(none) {}
  Tensor forward(const Tensor& src, const EncoderArguments& masks) const;
  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  Tensor operator()(const Tensor& src, const EncoderArguments& masks = {}) const;

 private:
  struct State;
  State& own() const;
};

// Copies of a decoder layer, one after the other, and an optional norm.
class STRATA_API TransformerDecoder : public Module {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers, const LayerNorm& norm = none);
  TransformerDecoder(None) : Module(none) {}
  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderArguments& masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderArguments& masks = {}) const;

 private:
  struct State;
  State& own() const;
};

struct TransformerOptions {
  int64_t d_model = 512, nhead = 8, num_encoder_layers = 6, num_decoder_layers = 6;
  TransformerLayerOptions layer = {};
};

// An encoder and a decoder.
class STRATA_API Transformer : public Module {
 public:
  using Options = TransformerOptions;
  explicit Transformer(const TransformerOptions& options = {});
  Transformer(None) : Module(none) {}
  using Module::forward;
  Tensor forward(const Tensor& src, const Tensor& tgt, const EncoderArguments& src_masks = {},
                 const DecoderArguments& tgt_masks = {}) const;
  Tensor operator()(const Tensor& src, const Tensor& tgt, const EncoderArguments& src_masks = {},
                    const DecoderArguments& tgt_masks = {}) const;
  TransformerEncoder encoder() const;
  TransformerDecoder decoder() const;
  // -inf above the diagonal, 0 elsewhere: masks later positions.
  static Tensor generate_square_subsequent_mask(int64_t size, std::optional<DType> dtype = {});

 private:
  struct State;
  State& own() const;
};

}  // namespace strata::nn
