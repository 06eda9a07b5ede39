#include "engine/passes/layer.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueRef;
using Ints = std::vector<int64_t>;

// An argument with a number for each dimension, or one for all.
std::optional<Ints> spread(const Argument& a, size_t dims) {
  Ints list;
  if (const auto* ints = std::get_if<Ints>(&a)) list = *ints;
  else if (const auto* one = std::get_if<int64_t>(&a)) list = {*one};
  else return {};
  if (list.size() == 1) list.assign(dims, list[0]);
  return list;
}

bool read_window(Layer& l, const Node& n) {
  const auto dims = static_cast<size_t>(l.weight.dim()) - 2;
  const auto stride = spread(Rewriter::arg(n, "stride"), dims), dilation = spread(Rewriter::arg(n, "dilation"), dims),
             padding = spread(Rewriter::arg(n, "padding"), dims);
  const auto* groups = std::get_if<int64_t>(&Rewriter::arg(n, "groups"));
  if (!stride || !dilation || !padding || !groups) return false;
  l.stride = *stride;
  l.dilation = *dilation;
  l.padding = *padding;
  if (l.padding.size() == dims) l.padding.insert(l.padding.end(), padding->begin(), padding->end());
  l.groups = *groups;
  return l.stride.size() == dims && l.dilation.size() == dims && l.padding.size() == 2 * dims;
}

// Reads what follows the sums of the fused ops.
bool read_tail(const Rewriter& r, Tail& t, const Node& n) {
  if (n.op == &op_convolution_relu_core) {
    t.activation = "relu";
    t.other = r.value(n, "other");
    return true;
  }
  if (n.op != &op_fused_convolution && n.op != &op_fused_linear) return true;
  const auto* activation = std::get_if<std::string>(&r.arg(n, "activation"));
  const auto* numbers = std::get_if<std::vector<double>>(&r.arg(n, "numbers"));
  const auto* last = std::get_if<bool>(&r.arg(n, "add_last"));
  if (!activation || !numbers || !last) return false;
  t = {*activation, *numbers, r.value(n, "other"), *last};
  return true;
}

bool is_convolution(const OpRecord* op) {
  return op == &op_convolution || op == &op_conv1d || op == &op_conv2d || op == &op_conv3d ||
         op == &op_fused_convolution || op == &op_convolution_relu_core;
}
}  // namespace

bool Layer::has_padding() const {
  return std::ranges::any_of(padding, [](int64_t n) { return n != 0; });
}
bool Layer::is_symmetric() const {
  const auto half = static_cast<ptrdiff_t>(padding.size() / 2);
  return std::equal(padding.begin(), padding.begin() + half, padding.begin() + half);
}

bool is_product(const Node& n) { return n.op == &op_matmul || n.op == &op_mm; }

graph::ValueId weight_value(const Rewriter& r, size_t at) {
  const Node& n = r.node(at);
  if (r.dead(at) || n.form != Form::Plain || !n.bodies.empty() || n.results.size() != 1) return kNoValue;
  if (is_product(n)) return r.value(n, n.op == &op_mm ? "mat2" : "other");
  if (is_convolution(n.op) || n.op == &op_linear || n.op == &op_fused_linear) return r.value(n, "weight");
  return kNoValue;
}

std::optional<Layer> layer_with_tail(const Rewriter& r, size_t at, const Tensor& weight) {
  const Node& n = r.node(at);
  Layer l;
  l.at = at;
  l.result = n.results[0];
  l.convolves = is_convolution(n.op);
  l.input = r.value(n, "input");
  l.weight = weight;
  if (l.input == kNoValue || r.type(l.input).shape.empty() || !read_tail(r, l.tail, n)) return {};
  if (!l.convolves) return weight.dim() == 2 ? std::optional(l) : std::nullopt;
  if (n.op == &op_convolution) {
    const auto* transposed = std::get_if<bool>(&r.arg(n, "transposed"));
    if (!transposed || *transposed) return {};
  }
  const int rank = weight.dim();
  if (rank < 3 || rank > 5 || static_cast<int>(r.type(l.input).shape.size()) != rank || !read_window(l, n)) return {};
  return l;
}

std::optional<Layer> layer_at(const Rewriter& r, size_t at) {
  const graph::ValueId id = weight_value(r, at);
  Tensor weight = r.constant(id);
  if (!weight || !kFloatingTypes.has(weight.dtype())) return {};
  const Node& n = r.node(at);
  if (is_product(n)) {
    if (weight.dim() != 2) return {};
    weight = transpose(weight, 0, 1);
  }
  std::optional<Layer> l = layer_with_tail(r, at, weight);
  if (!l || l->tail.any()) return {};
  if (is_product(n)) return l;
  if (const graph::ValueId bias = r.value(n, "bias"); bias != kNoValue) {
    l->bias = r.constant(bias);
    if (!l->bias || l->bias.dim() != 1) return {};
  }
  return l;
}

Tensor per_channel(const Rewriter& r, const Layer& layer, const Argument& a) {
  const autograd::NoGrad off;
  const int64_t channels = layer.channels();
  if (const auto number = r.number(a))
    return full({channels}, *number, TensorOptions(DType::F64).device(layer.weight.device()));
  const auto* ref = std::get_if<ValueRef>(&a);
  const Tensor t = ref ? r.constant(ref->id) : Tensor();
  if (!t || t.numel() != channels || is_complex(t.dtype())) return {};
  // The channel is dimension 1 of a convolution's result and the last of a product's.
  const auto rank = static_cast<int>(r.type(layer.result).shape.size());
  const int channel = t.dim() - (layer.convolves ? rank - 1 : 1);
  if (t.dim() > rank || channel < 0 || t.size(channel) != channels) return {};
  return to(reshape(t, {channels}), DType::F64);
}

graph::ValueId constant_of(Rewriter& r, const Tensor& t, const Node& like, const char* what) {
  return r.add_constant(t, r.graph().values[like.results[0]].name + "." + what);
}

Node node_of(Rewriter& r, const Layer& l, graph::ValueId weight, graph::ValueId bias, graph::ValueId result) {
  const auto maybe = [](graph::ValueId id) { return id == kNoValue ? Argument() : Argument(ValueRef{id}); };
  const Node& like = r.node(l.at);
  std::vector<Argument> args = {ValueRef{l.input}, ValueRef{weight}, maybe(bias)};
  if (!l.convolves) return Rewriter::make(op_linear, std::move(args), {result}, like);
  const size_t dims = l.stride.size();
  if (l.is_symmetric()) {
    const Ints front(l.padding.begin(), l.padding.begin() + static_cast<ptrdiff_t>(dims));
    args.insert(args.end(), {l.stride, front, l.dilation, false, Ints(dims, 0), l.groups});
    return Rewriter::make(op_convolution, std::move(args), {result}, like);
  }
  args.insert(args.end(), {Argument(), l.stride, l.padding, l.dilation, l.groups, std::string("none"),
                           std::vector<double>(), false});
  return Rewriter::make(op_fused_convolution, std::move(args), {result}, like);
}

}  // namespace strata::engine
