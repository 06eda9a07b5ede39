// Channels-last order through networks of convolutions. Shapes stay as they are; only strides change, and ops follow those of their
// inputs. So convolutions get their input in that order, once, and all values after are of the order that follows.
#include <algorithm>

#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/retype.h"
#include "engine/passes/rewriter.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::kNoValue;
using graph::Node;
using graph::ValueId;
using graph::ValueRef;
using graph::ValueType;

bool is_convolution(const Node& n) {
  if (n.op == &op_convolution) {
    const auto* transposed = std::get_if<bool>(&Rewriter::arg(n, "transposed"));
    return transposed && !*transposed;
  }
  return n.op == &op_conv2d || n.op == &op_fused_convolution || n.op == &op_int8_convolution ||
         n.op == &op_convolution_relu_core;
}

std::vector<int64_t> last_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = shape[1];
  strides[1] = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (d == 1) continue;
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}
// One channel fits both orders; convolutions go by its stride.
bool is_last(const ValueType& type) {
  if (type.shape[1] == 1) return type.strides[1] == 1;
  ValueType wanted = type;
  wanted.strides = last_strides(type.shape);
  return graph::same_layout(type, wanted);
}

// A graph in the new order, or why there is none.
class Layout {
 public:
  Layout(const graph::Graph& g, const PassOptions& options) : g_(g), options_(options) {}

  // `turn`: convolutions get their inputs in channels-last order. Returns whether one did not have it.
  bool run(bool turn) {
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node& n : nodes) {
      if (turn && is_convolution(n)) turn_value(n, Rewriter::value(n, "input"), "the input");
      if (turn) turn_operand(n);
      if (n.op == &op_view) n.op = &op_reshape;  // of the new strides there may be no view
      const std::vector<ValueType> types = result_types(g_, n);
      for (size_t k = 0; k < types.size(); ++k)
        if (n.results[k] != kNoValue) g_.values[n.results[k]].type = types[k];
      g_.nodes.push_back(std::move(n));
    }
    return turned_ > 0;
  }
  // What the caller gets has the strides that it had.
  void restore_outputs(const graph::Graph& before) {
    for (ValueId& id : g_.outputs) {
      const ValueType type = before.values[id].type;
      if (graph::same_layout(g_.values[id].type, type)) continue;
      ValueType plain = type;
      int64_t step = 1;
      for (size_t d = type.shape.size(); d-- > 0; step *= type.shape[d]) plain.strides[d] = step;
      if (!graph::same_layout(plain, type)) continue;  // it was a view: any order is right
      const ValueId turned = add_value(plain, g_.values[id].name + ".plain");
      g_.nodes.push_back(
        Rewriter::make(op_clone, {ValueRef{id}, std::string("contiguous_format")}, {turned}, g_.nodes.back()));
      id = turned;
    }
  }
  graph::Graph take() { return std::move(g_); }
  size_t turned() const { return turned_; }

 private:
  ValueId add_value(const ValueType& type, const std::string& like) {
    std::string name = like;
    while (std::ranges::any_of(g_.values, [&](const graph::Graph::Value& v) { return v.name == name; })) name += "_";
    g_.values.push_back({type, name});
    return static_cast<ValueId>(g_.values.size() - 1);
  }
  // Of two operands in different orders, one is turned: an op that follows both reads one of them with a large step.
  void turn_operand(Node& n) {
    const bool two = n.op == &op_add || n.op == &op_sub || n.op == &op_mul || n.op == &op_div || n.op == &op_maximum ||
                     n.op == &op_minimum;
    if (!two) return;
    const auto *a = std::get_if<ValueRef>(n.args.data()), *b = std::get_if<ValueRef>(&n.args[1]);
    if (!a || !b) return;
    const ValueType &x = g_.values[a->id].type, &y = g_.values[b->id].type;
    if (x.shape.size() != 4 || x.shape != y.shape || x.shape[1] == 1 || is_last(x) == is_last(y)) return;
    turn_value(n, is_last(x) ? b->id : a->id, "an operand");
  }
  void turn_value(Node& n, ValueId id, const char* what) {
    if (id == kNoValue) return;
    const ValueType type = g_.values[id].type;
    if (type.shape.size() != 4 || is_last(type)) return;
    const auto known = std::ranges::find(copies_, id, &std::pair<ValueId, ValueId>::first);
    ValueId turned = known == copies_.end() ? kNoValue : known->second;
    if (turned == kNoValue) {
      ValueType last = type;
      last.strides = last_strides(type.shape);
      turned = add_value(last, g_.values[id].name + ".channels_last");
      copies_.emplace_back(id, turned);
      g_.nodes.push_back(Rewriter::make(op_clone, {ValueRef{id}, std::string("channels_last")}, {turned}, n));
      ++turned_;
      if (options_.decisions) {
        int64_t bytes = static_cast<int64_t>(size_of(type.dtype));
        for (const int64_t s : type.shape) bytes *= s;
        options_.decisions->push_back({"lay_out_channels_last", place_of(n),
                                       std::string(what) + " is copied in channels-last order", true, -2 * bytes});
      }
    }
    for (graph::Argument& a : n.args)
      if (auto* ref = std::get_if<ValueRef>(&a); ref && ref->id == id) ref->id = turned;
  }

  graph::Graph g_;
  const PassOptions& options_;
  std::vector<std::pair<ValueId, ValueId>> copies_;
  size_t turned_ = 0;
};
}  // namespace

void infer_again(graph::Graph& g) {
  const PassOptions none;
  Layout layout(g, none);
  layout.run(false);
  layout.restore_outputs(g);
  graph::Graph inferred = layout.take();
  graph::verify(inferred);
  g = std::move(inferred);
}

size_t lay_out_channels_last(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  if (std::ranges::none_of(g.nodes, [](const Node& n) { return is_convolution(n); })) return 0;
  try {
    Layout layout(g, options);
    if (!layout.run(true)) return 0;
    layout.restore_outputs(g);
    graph::Graph turned = layout.take();
    graph::verify(turned);
    g = std::move(turned);
  } catch (const Error& e) {
    if (options.decisions)
      options.decisions->push_back(
        {"lay_out_channels_last", "the whole graph", std::string("the layouts stay: ") + e.what(), false});
  }
  return 0;
}

}  // namespace strata::engine
