// Convolutions and products with constant weights, as passes see them.
#pragma once
#include "engine/passes/rewriter.h"

namespace strata::engine {

// What follows the sums, as the arguments of the fused ops.
struct Tail {
  std::string activation = "none";
  std::vector<double> numbers = {};
  graph::ValueId other = graph::kNoValue;
  bool add_last = false;
  bool any() const { return activation != "none" || other != graph::kNoValue; }
};

// convolution(input, weight, bias), or input @ weight.T + bias, and what follows.
struct Layer {
  size_t at = 0;
  bool convolves = false;
  graph::ValueId input = graph::kNoValue, result = graph::kNoValue;
  Tensor weight, bias;                             // weight [out, ...]; bias may be undefined
  std::vector<int64_t> stride, padding, dilation;  // padding: in front of all dimensions, then behind them
  int64_t groups = 1;
  Tail tail = {};

  int64_t channels() const { return weight.size(0); }
  bool has_padding() const;
  bool is_symmetric() const;  // the same padding on both sides
};

// The layer that node `at` is, if it is one with constants and nothing follows in it.
std::optional<Layer> layer_at(const Rewriter& r, size_t at);
// The same with what follows, for a weight of these sizes; `bias` is not read, and need not be a constant.
std::optional<Layer> layer_with_tail(const Rewriter& r, size_t at, const Tensor& weight);
// The value that is the weight of node `at`, kNoValue if it is no layer.
graph::ValueId weight_value(const Rewriter& r, size_t at);
bool is_product(const graph::Node& n);  // of a matrix with a weight that is not transposed
// A constant that has one number per channel of the layer's result, or one for all, as [out] in float64; undefined for others.
Tensor per_channel(const Rewriter& r, const Layer& layer, const graph::Argument& a);
// The node of a layer, as the plain op that does it.
graph::Node node_of(Rewriter& r, const Layer& layer, graph::ValueId weight, graph::ValueId bias, graph::ValueId result);
// The constants of a layer, whose tensors may be new.
graph::ValueId constant_of(Rewriter& r, const Tensor& t, const graph::Node& like, const char* what);

}  // namespace strata::engine
