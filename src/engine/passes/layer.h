// Convolutions and products with constant weights, as passes see them.
#pragma once
#include "engine/passes/rewriter.h"

namespace strata::engine {

// convolution(input, weight, bias), with nothing after it, or input @ weight.T + bias.
struct Layer {
  size_t at = 0;
  bool convolves = false;
  graph::ValueId input = graph::kNoValue, result = graph::kNoValue;
  Tensor weight, bias;                             // weight [out, ...]; bias may be undefined
  std::vector<int64_t> stride, padding, dilation;  // padding: in front of all dimensions, then behind them
  int64_t groups = 1;

  int64_t channels() const { return weight.size(0); }
  bool has_padding() const;
};

// The layer that node `at` is, if it is one.
std::optional<Layer> layer_at(const Rewriter& r, size_t at);
// A constant that has one number per channel of the layer's result, or one for all, as [out] in float64; undefined for others.
Tensor per_channel(const Rewriter& r, const Layer& layer, const graph::Argument& a);
// The node of a layer, as the plain op that does it.
graph::Node node_of(Rewriter& r, const Layer& layer, graph::ValueId weight, graph::ValueId bias, graph::ValueId result);
// The constants of a layer, whose tensors may be new.
graph::ValueId constant_of(Rewriter& r, const Tensor& t, const graph::Node& like, const char* what);

}  // namespace strata::engine
