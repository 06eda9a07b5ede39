// Batch norms and other products and sums per channel, folded into the weights beside them. Computed in float64 and rounded once.
#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/layer.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;

// y = scale * x + shift for each channel; either may be undefined.
struct Affine {
  Tensor scale, shift;
};

bool is_batch_norm(const Node& n) { return n.op == &op_native_batch_norm || n.op == &op_batch_norm; }

// Of a batch norm in eval mode, whose statistics are constants.
std::optional<Affine> affine_of_norm(const Rewriter& r, const Node& n) {
  const auto* training = std::get_if<bool>(&r.arg(n, "training"));
  if (training && *training) return {};
  const auto f64 = [&](const char* name) {
    const Tensor t = r.constant(r.value(n, name));
    return t ? to(t, DType::F64) : Tensor();
  };
  const Tensor mean = f64("running_mean"), var = f64("running_var"), weight = f64("weight"), bias = f64("bias");
  const auto missing = [&](const Tensor& t, const char* name) { return !t && r.value(n, name) != kNoValue; };
  const auto eps = r.number(r.arg(n, "eps"));
  if (!mean || !var || missing(weight, "weight") || missing(bias, "bias") || !eps) return {};
  Affine a;
  a.scale = rsqrt(add(var, *eps));
  if (weight) a.scale = mul(a.scale, weight);
  a.shift = neg(mul(mean, a.scale));
  if (bias) a.shift = add(a.shift, bias);
  return a;
}

bool is_one(const Rewriter& r, const Node& n, const char* name) {
  const Argument& a = r.arg(n, name);
  return std::holds_alternative<std::monostate>(a) || r.is_number(a, 1, 0);
}

// What node n does to the result of a layer, if that is affine per channel.
std::optional<Affine> affine_after(const Rewriter& r, const Layer& l, const Node& n) {
  if (is_batch_norm(n)) {
    if (r.value(n, "input") != l.result || r.type(l.result).shape.size() < 2) return {};
    if (!l.convolves && r.type(l.result).shape.size() != 2) return {};  // the channels are the last dimension only here
    return affine_of_norm(r, n);
  }
  const bool sum = n.op == &op_add, difference = n.op == &op_sub, product = n.op == &op_mul, quotient = n.op == &op_div;
  if (!sum && !difference && !product && !quotient) return {};
  if ((sum || difference) && !is_one(r, n, "alpha")) return {};
  if (quotient && !std::holds_alternative<std::monostate>(r.arg(n, "rounding_mode"))) return {};
  const bool first = r.value(n, "input") == l.result;
  if (!first && (difference || quotient)) return {};
  const Tensor t = per_channel(r, l, n.args[first ? 1 : 0]);
  if (!t) return {};
  if (sum) return Affine{{}, t};
  if (difference) return Affine{{}, neg(t)};
  return Affine{product ? t : reciprocal(t), {}};
}

Tensor per_row(const Tensor& t, const Tensor& weight) {
  std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
  shape[0] = -1;
  return reshape(t, shape);
}

bool same_shape(const Rewriter& r, graph::ValueId a, graph::ValueId b) { return r.type(a) == r.type(b); }

// Gives the layer new constants, and `result` as its result.
void rebuild(Rewriter& r, Layer l, const Tensor& weight, const Tensor& bias, graph::ValueId result, size_t at,
             const std::vector<size_t>& gone) {
  const Node& like = r.node(l.at);
  const DType dtype = l.weight.dtype();
  const graph::ValueId w = constant_of(r, weight ? to(weight, dtype) : l.weight, like, "weight"),
                       b = constant_of(r, to(bias, dtype), like, "bias");
  r.replace(at, node_of(r, l, w, b, result), gone);
}

bool fold_after(Rewriter& r, size_t at) {
  const std::optional<Layer> l = layer_at(r, at);
  if (!l) return false;
  const size_t user = r.sole_user(l->result);
  if (user == Rewriter::kNone) return false;
  const Node& n = r.node(user);
  for (size_t k = 1; k < n.results.size(); ++k)
    if (r.uses(n.results[k])) return false;
  if (n.results.empty() || !same_shape(r, n.results[0], l->result)) return false;
  const std::optional<Affine> a = affine_after(r, *l, n);
  if (!a) return false;
  Tensor weight, bias = l->bias ? to(l->bias, DType::F64)
                                : zeros({l->channels()}, TensorOptions(DType::F64).device(l->weight.device()));
  if (a->scale) {
    weight = mul(to(l->weight, DType::F64), per_row(a->scale, l->weight));
    bias = mul(bias, a->scale);
  }
  if (a->shift) bias = add(bias, a->shift);
  r.applied(user, std::string(n.op->name) + " is part of the weights of " + r.node(at).op->name,
            2 * r.bytes(l->result));
  rebuild(r, *l, weight, bias, n.results[0], user, {at});
  return true;
}

// A batch norm before a convolution without padding.
bool fold_before(Rewriter& r, size_t at) {
  const std::optional<Layer> l = layer_at(r, at);
  if (!l || !l->convolves || l->groups != 1) return false;
  for (const OpRecord* op :
       {static_cast<const OpRecord*>(&op_native_batch_norm), static_cast<const OpRecord*>(&op_batch_norm)}) {
    const size_t norm = r.sole_producer(l->input, *op);
    if (norm == Rewriter::kNone) continue;
    const std::optional<Affine> a = affine_of_norm(r, r.node(norm));
    if (!a || r.type(l->input).shape.size() < 3) return false;
    if (l->has_padding()) {
      r.refused(norm,
                "the convolution after the batch norm pads with zeros, which the norm would have to map to zeros");
      return false;
    }
    const Tensor w = to(l->weight, DType::F64);
    std::vector<int64_t> shape(static_cast<size_t>(w.dim()), 1), others;
    shape[1] = -1;
    for (int d = 1; d < w.dim(); ++d) others.push_back(d);
    Tensor bias = sum(mul(w, reshape(a->shift, shape)), others);
    if (l->bias) bias = add(bias, to(l->bias, DType::F64));
    Layer without = *l;
    without.input = r.value(r.node(norm), "input");
    r.applied(norm, "the batch norm is part of the weights of the convolution after it", 2 * r.bytes(l->input));
    rebuild(r, without, mul(w, reshape(a->scale, shape)), bias, l->result, at, {});
    return true;
  }
  return false;
}
}  // namespace

size_t fold_norms(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "fold_norms");
  for (size_t at = 0; at < r.size(); ++at) {
    if (r.dead(at)) continue;
    fold_before(r, at);
    // The layer moves to the node that it replaces, so chains of several are folded there.
    fold_after(r, at);
  }
  return r.finish();
}

}  // namespace strata::engine
