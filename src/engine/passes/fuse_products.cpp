// Convolutions and products with their bias, a residual and an activation: one op, one pass over the result.
#include <array>

#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/layer.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;
using graph::ValueRef;

// What follows a layer, and the nodes that compute it.
struct Following : Tail {
  ValueId result = kNoValue;
  std::vector<size_t> nodes = {};
  size_t last = 0;        // the last of them, or the layer
  std::string text = {};  // for the report
};

struct Activation {
  std::string name;
  std::vector<double> numbers = {};
};

std::optional<Activation> activation_of(const Rewriter& r, const Node& n) {
  struct Plain {
    const OpRecord* op;
    const char* name;
  };
  const std::array plain = {Plain{&op_relu, "relu"}, Plain{&op_sigmoid, "sigmoid"}, Plain{&op_tanh, "tanh"},
                            Plain{&op_silu, "silu"}, Plain{&op_mish, "mish"},       Plain{&op_hardswish, "hardswish"}};
  for (const Plain& p : plain)
    if (n.op == p.op) return Activation{p.name};
  const auto number = [&](const char* name) { return r.number(r.arg(n, name)); };
  if (n.op == &op_relu6) return Activation{"clamp", {0, 6}};
  if (n.op == &op_hardsigmoid) return Activation{"hardsigmoid", {1.0 / 6, 0.5}};
  if (n.op == &op_gelu) {
    const auto* how = std::get_if<std::string>(&r.arg(n, "approximate"));
    return Activation{how && *how == "tanh" ? "gelu_tanh" : "gelu"};
  }
  if (n.op == &op_leaky_relu)
    if (const auto slope = number("negative_slope")) return Activation{"leaky_relu", {*slope}};
  if (n.op == &op_elu)
    if (const auto alpha = number("alpha")) return Activation{"elu", {*alpha}};
  if (n.op == &op_elu_scaled && r.is_number(r.arg(n, "scale"), 1, 0) && r.is_number(r.arg(n, "input_scale"), 1, 0))
    if (const auto alpha = number("alpha")) return Activation{"elu", {*alpha}};
  if (n.op == &op_hardtanh) {
    const auto low = number("min_val"), high = number("max_val");
    if (low && high) return Activation{"clamp", {*low, *high}};
  }
  if (n.op == &op_clamp) {
    const auto low = number("min"), high = number("max");
    if (low && high) return Activation{"clamp", {*low, *high}};
    if (low && *low == 0 && std::holds_alternative<std::monostate>(r.arg(n, "max"))) return Activation{"relu"};
  }
  if (n.op == &op_maximum && (r.is_number(n.args[0], 0, 0) || r.is_number(n.args[1], 0, 0))) return Activation{"relu"};
  if (n.op == &op_clamp_min && r.is_number(r.arg(n, "min"), 0, 0)) return Activation{"relu"};
  return {};
}

// The sum of a value and another of its type; the other, or kNoValue.
ValueId added_to(const Rewriter& r, const Node& n, ValueId v) {
  if (n.op != &op_add || !r.is_number(r.arg(n, "alpha"), 1, 0)) return kNoValue;
  const ValueId a = r.value(n, "input"), b = r.value(n, "other");
  if (a == kNoValue || b == kNoValue || a == b) return kNoValue;
  const ValueId other = a == v ? b : a;
  const graph::ValueType &x = r.type(v), &y = r.type(other);
  return x.dtype == y.dtype && x.shape == y.shape ? other : kNoValue;
}

// Follows the result of a layer through what its op can do too.
Following follow(const Rewriter& r, const Layer& l) {
  Following t;
  t.result = l.result;
  t.last = l.at;
  while (!t.add_last) {
    const size_t user = r.sole_user(t.result);
    if (user == Rewriter::kNone) break;
    const Node& n = r.node(user);
    if (n.results.size() != 1 || !(r.type(n.results[0]) == r.type(l.result))) break;
    if (const ValueId other = added_to(r, n, t.result); other != kNoValue && t.other == kNoValue) {
      t.other = other;
      t.add_last = t.activation != "none";
      t.text += " + residual";
    } else if (auto activation = activation_of(r, n); activation && t.activation == "none") {
      t.activation = activation->name;
      t.numbers = std::move(activation->numbers);
      t.text += " + " + t.activation;
    } else {
      break;
    }
    t.nodes.push_back(user);
    t.last = std::max(t.last, user);
    t.result = n.results[0];
  }
  return t;
}

Argument maybe(ValueId id) { return id == kNoValue ? Argument() : Argument(ValueRef{id}); }

// The constants of the layer as they are in the graph; new ones if it has others.
ValueId weight_of(Rewriter& r, const Layer& l, const Node& n) {
  return is_product(n) ? constant_of(r, l.weight, n, "weight") : r.value(n, "weight");
}
ValueId bias_of(const Rewriter& r, const Node& n) { return is_product(n) ? kNoValue : r.value(n, "bias"); }

Node fused(Rewriter& r, const Layer& l, const Following& t) {
  const Node& like = r.node(l.at);
  const ValueId weight = weight_of(r, l, like), bias = bias_of(r, like);
  std::vector<Argument> args = {ValueRef{l.input}, ValueRef{weight}, maybe(bias)};
  const bool on_device = r.type(l.input).device.type != DeviceType::Cpu;
  if (!l.convolves) {
    const bool same = t.other == kNoValue && on_device;
    if (same &&
        (t.activation == "relu" || t.activation == "gelu" || t.activation == "gelu_tanh" || t.activation == "silu")) {
      args.emplace_back(t.activation);
      return Rewriter::make(op_linear_activation, std::move(args), {t.result}, like);
    }
    args.insert(args.end(), {maybe(t.other), t.activation, t.numbers, t.add_last});
    return Rewriter::make(op_fused_linear, std::move(args), {t.result}, like);
  }
  args.push_back(maybe(t.other));
  if (on_device && t.activation == "relu" && !t.add_last && l.is_symmetric()) {  // it has kernels of its own there
    const std::vector<int64_t> padding(l.padding.begin(), l.padding.begin() + static_cast<ptrdiff_t>(l.stride.size()));
    args.insert(args.end(), {l.stride, padding, l.dilation, l.groups});
    return Rewriter::make(op_convolution_relu_core, std::move(args), {t.result}, like);
  }
  args.insert(args.end(), {l.stride, l.padding, l.dilation, l.groups, t.activation, t.numbers, t.add_last});
  return Rewriter::make(op_fused_convolution, std::move(args), {t.result}, like);
}

bool fuse(Rewriter& r, size_t at) {
  const std::optional<Layer> l = layer_at(r, at);
  if (!l) return false;
  Following t = follow(r, *l);
  if (!t.any()) return false;
  Node n = fused(r, *l, t);
  r.applied(at, std::string(r.node(at).op->name) + t.text,
            2 * static_cast<int64_t>(t.nodes.size()) * r.bytes(l->result));
  t.nodes.push_back(at);
  r.replace(t.last, std::move(n), t.nodes);
  return true;
}

// matmul(x, constant) + a constant of the result's columns.
bool join_bias(Rewriter& r, size_t at) {
  const std::optional<Layer> l = layer_at(r, at);
  if (!l || l->convolves || l->bias) return false;
  const size_t user = r.sole_user(l->result);
  if (user == Rewriter::kNone) return false;
  const Node& n = r.node(user);
  if (n.op != &op_add || !r.is_number(r.arg(n, "alpha"), 1, 0) || !(r.type(n.results[0]) == r.type(l->result)))
    return false;
  const bool first = r.value(n, "input") == l->result;
  const ValueId constant = r.value(n, first ? "other" : "input");
  const Tensor t = r.constant(constant);
  if (!t || t.dtype() != l->weight.dtype() || t.numel() != l->channels() || t.dim() < 1 || t.size(-1) != t.numel())
    return false;
  const Node& like = r.node(at);
  const ValueId weight = weight_of(r, *l, like),
                bias = t.dim() == 1 ? constant : constant_of(r, reshape(t, {t.numel()}), like, "bias");
  r.applied(at, "the sum with a constant row is the bias of the product", 2 * r.bytes(l->result));
  r.replace(user, node_of(r, *l, weight, bias, n.results[0]), {at});
  return true;
}
}  // namespace

size_t fuse_products(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "fuse_products");
  for (size_t at = 0; at < r.size(); ++at)
    if (!r.dead(at)) join_bias(r, at);
  for (size_t at = 0; at < r.size(); ++at)
    if (!r.dead(at)) fuse(r, at);
  return r.finish();
}

}  // namespace strata::engine
