// Layers between conversions to bytes and back become layers of bytes: with integer products.
#include "engine/passes/bytes.h"
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

// What a value of floats is computed from, if that is bytes with one scale.
struct Bytes {
  ValueId bytes = kNoValue;
  double scale = 1, zero = 0;
};
std::optional<Bytes> bytes_of(const Rewriter& r, ValueId id) {
  const size_t at = id == kNoValue ? Rewriter::kNone : r.producer(id, op__dequantize);
  if (at == Rewriter::kNone) return {};
  const Node& n = r.node(at);
  const auto scale = r.number(r.arg(n, "scale")), zero = r.number(r.arg(n, "zero"));
  const ValueId bytes = r.value(n, "input");
  if (!scale || !zero || bytes == kNoValue) return {};
  return Bytes{bytes, *scale, *zero};
}

Argument maybe(ValueId id) { return id == kNoValue ? Argument() : Argument(ValueRef{id}); }

bool fuse(Rewriter& r, size_t at) {
  const ValueId weight = weight_value(r, at);
  const size_t scaled = weight == kNoValue ? Rewriter::kNone : r.producer(weight, op__dequantize_channels);
  if (scaled == Rewriter::kNone || is_product(r.node(at))) return false;
  const Node& n = r.node(at);
  const ValueId bytes_id = r.value(r.node(scaled), "input"), scales = r.value(r.node(scaled), "scales");
  const Tensor bytes = r.constant(bytes_id);
  if (!bytes || !r.is_number(r.arg(r.node(scaled), "dim"), 0, 0)) return false;
  const std::optional<Layer> l = layer_with_tail(r, at, bytes);
  const std::optional<Bytes> input = l ? bytes_of(r, l->input) : std::nullopt;
  if (!input) return false;
  const ValueId bias = r.value(n, "bias");
  if (r.type(l->result).dtype != DType::F32 || (bias != kNoValue && r.type(bias).dtype != DType::F32)) return false;
  // The result as bytes, if nothing else needs it as floats.
  ValueId result = l->result;
  size_t last = at;
  Bytes out;
  Argument out_dtype;
  if (const size_t user = r.sole_user(result); user != Rewriter::kNone && r.node(user).op == &op__quantize) {
    const Node& q = r.node(user);
    const auto scale = r.number(r.arg(q, "scale")), zero = r.number(r.arg(q, "zero"));
    const auto* dtype = std::get_if<DType>(&r.arg(q, "dtype"));
    if (scale && zero && dtype) {
      out = {kNoValue, *scale, *zero};
      out_dtype = *dtype;
      result = q.results[0];
      last = user;
    }
  }
  ValueId other = l->tail.other;
  Bytes added;
  if (const std::optional<Bytes> b = bytes_of(r, other)) {
    added = *b;
    other = b->bytes;
  }
  const std::vector<double> numbers = {input->scale, input->zero, added.scale, added.zero, out.scale, out.zero};
  std::vector<Argument> args = {ValueRef{input->bytes}, ValueRef{bytes_id}, ValueRef{scales}, maybe(bias),
                                maybe(other)};
  if (l->convolves) args.insert(args.end(), {l->stride, l->padding, l->dilation, l->groups});
  args.insert(args.end(), {l->tail.activation, l->tail.numbers, l->tail.add_last, numbers, out_dtype});
  const OpRecord& op = l->convolves ? static_cast<const OpRecord&>(op_int8_convolution) : op_int8_linear;
  Node joined = Rewriter::make(op, std::move(args), {result}, n);
  r.applied(at, std::string(n.op->name) + " by products of bytes", 3 * (r.bytes(l->input) + r.bytes(result)));
  r.replace(last, std::move(joined), {at});
  return true;
}
}  // namespace

size_t fuse_bytes(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "fuse_bytes");
  for (size_t at = 0; at < r.size(); ++at)
    if (!r.dead(at)) fuse(r, at);
  return r.finish();
}

// --- weights ------------------------------------------------------------------------------------------------------------
ByteWeights find_byte_weights(const graph::Graph& g) {
  graph::Graph copy = g;
  const PassOptions none;
  const Rewriter r(copy, none, "find_byte_weights");
  ByteWeights found;
  const autograd::NoGrad off;
  for (size_t at = 0; at < r.size(); ++at) {
    const Node& n = r.node(at);
    const bool channels = n.op == &op__dequantize_channels, one = n.op == &op__dequantize;
    if (n.form != Form::Plain || (!channels && !one)) continue;
    const Tensor bytes = r.constant(r.value(n, "input"));
    if (!bytes || bytes.dtype() != DType::I8 || bytes.dim() < 2) continue;
    if (one) {
      const auto scale = r.number(r.arg(n, "scale"));
      if (!scale || !r.is_number(r.arg(n, "zero"), 0, 0)) continue;
      const Tensor scales = full({1}, *scale, TensorOptions(DType::F32).device(bytes.device()));
      found.emplace(n.results[0], ByteWeight{bytes, scales, -1});
    } else if (const Tensor scales = r.constant(r.value(n, "scales"))) {
      const auto* dim = std::get_if<int64_t>(&r.arg(n, "dim"));
      if (dim) found.emplace(n.results[0], ByteWeight{bytes, scales, *dim});
    }
  }
  return found;
}

void restore_byte_weights(graph::Graph& g, const ByteWeights& weights, const PassOptions& options) {
  if (weights.empty()) return;
  Rewriter r(g, options, "restore_byte_weights");
  for (size_t at = 0; at < r.size(); ++at) {
    const ValueId id = weight_value(r, at);
    const auto found = id == kNoValue ? weights.end() : weights.find(id);
    if (found == weights.end() || !r.constant(id)) continue;
    ByteWeight w = found->second;
    const bool product = is_product(r.node(at));  // its weight has a column per channel
    if (w.dim >= 0 && w.dim != (product ? 1 : 0)) continue;
    if (product) {
      if (w.bytes.dim() != 2 || !make_linear(r, at)) continue;
      w.bytes = contiguous(transpose(w.bytes, 0, 1));
    }
    if (w.dim < 0) w.scales = contiguous(expand(w.scales, {w.bytes.size(0)}));
    use_byte_weight(r, at, w);
  }
  r.finish();
}

bool make_linear(Rewriter& r, size_t at) {
  const std::optional<Layer> l = layer_at(r, at);
  if (!l || l->convolves) return false;
  const std::string name = r.graph().values[weight_value(r, at)].name;
  const ValueId w = r.add_constant(l->weight, name + ".rows");
  r.replace(at, node_of(r, *l, w, kNoValue, l->result));
  return true;
}

void use_byte_weight(Rewriter& r, size_t at, const ByteWeight& w) {
  const std::string name = r.graph().values[weight_value(r, at)].name;
  const ValueId bytes = r.add_constant(w.bytes, name + ".int8"), scales = r.add_constant(w.scales, name + ".scales");
  graph::ValueType type = graph::type_of(*w.bytes);
  type.dtype = DType::F32;
  const ValueId floats = r.add_value(type, name + ".float32");
  r.insert_before(
    at, Rewriter::make(op__dequantize_channels, {ValueRef{bytes}, ValueRef{scales}, int64_t{0}}, {floats}, r.node(at)));
  r.set_argument(at, 1, ValueRef{floats});
}

}  // namespace strata::engine
