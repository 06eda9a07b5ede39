#include "engine/quantize/insert.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "engine/passes/bytes.h"
#include "engine/passes/layer.h"
#include "strata/ops.h"

namespace strata::engine {

using graph::kNoValue;
using graph::ValueId;
using graph::ValueRef;

namespace {
constexpr std::string_view kLastSuffix = ".channels_last";

Tensor float_weight(const Rewriter& r, size_t at) {
  const Tensor weight = r.constant(weight_value(r, at));
  if (!weight || weight.dtype() != DType::F32 || weight.dim() < 2 || weight.numel() == 0) return {};
  return is_product(r.node(at)) ? transpose(weight, 0, 1) : weight;
}
}  // namespace

std::string table_name(const std::string& value) {
  return value.ends_with(kLastSuffix) ? value.substr(0, value.size() - kLastSuffix.size()) : value;
}

std::string layer_name(const Rewriter& r, size_t at) {
  const Tensor weight = float_weight(r, at);
  if (!weight || !layer_with_tail(r, at, weight) || r.type(r.node(at).results[0]).dtype != DType::F32) return {};
  return r.graph().values[weight_value(r, at)].name;
}

ByteWeight byte_weight_of(const Tensor& weight) {
  std::vector<int64_t> others, shape(static_cast<size_t>(weight.dim()), 1);
  for (int d = 1; d < weight.dim(); ++d) others.push_back(d);
  shape[0] = weight.size(0);
  const Tensor largest = amax(abs(weight), others);
  const Tensor scales = where(gt(largest, 0), div(largest, 127), ones_like(largest));
  const Tensor q = clamp(round(div(weight, reshape(scales, shape))), -127, 127);
  return {contiguous(to(q, DType::I8)), contiguous(scales)};
}

size_t insert_bytes(graph::Graph& g, const CalibrationTable& table, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "insert_bytes");
  std::map<ValueId, ValueId> rounded;  // values after the conversion to bytes and back
  std::vector<size_t> layers;
  std::map<ValueId, bool> is_input;
  const auto range_of = [&](ValueId id) { return table.values.find(table_name(r.graph().values[id].name)); };
  for (size_t at = 0; at < r.size(); ++at) {
    const std::string name = layer_name(r, at);
    if (name.empty()) continue;
    const ValueId input = r.value(r.node(at), "input");
    if (std::ranges::find(table.floats, name) != table.floats.end()) {
      r.refused(at, "stays in float32: its error in int8 is too large");
    } else if (!all(isfinite(float_weight(r, at))).item<bool>()) {
      r.refused(at, "stays in float32: its weights have NaN or infinities");
    } else if (range_of(input) == table.values.end()) {
      r.refused(at, "stays in float32: its input was not calibrated");
    } else {
      layers.push_back(at);
      is_input[input] = true;
    }
  }
  const auto convert = [&](ValueId id, size_t before) {
    const auto [known, is_new] = rounded.try_emplace(id, kNoValue);
    if (!is_new) return known->second;
    const graph::ValueType floats = r.type(id);
    graph::ValueType bytes = floats;
    bytes.dtype = DType::I8;
    const double scale = static_cast<double>(static_cast<float>(range_of(id)->second.scale()));
    const std::string name = r.graph().values[id].name;
    const ValueId q = r.add_value(bytes, name + ".int8"), back = r.add_value(floats, name + ".rounded");
    const graph::Node& like = r.node(before);
    r.insert_before(before, Rewriter::make(op__quantize, {ValueRef{id}, scale, int64_t{0}, DType::I8}, {q}, like));
    r.insert_before(before, Rewriter::make(op__dequantize, {ValueRef{q}, scale, int64_t{0}}, {back}, like));
    return known->second = back;
  };
  for (const size_t at : layers) {
    const Tensor weight = float_weight(r, at);
    if (is_product(r.node(at)) && !make_linear(r, at)) continue;
    use_byte_weight(r, at, byte_weight_of(weight));
    const graph::Node& n = r.node(at);
    for (size_t k = 0; k < n.args.size(); ++k) {
      const auto* ref = std::get_if<ValueRef>(&n.args[k]);
      const std::string_view parameter = n.op->params[k].name;
      if (!ref || (parameter != "input" && parameter != "other")) continue;
      const ValueId id = ref->id;
      if (parameter == "other" && (!is_input.contains(id) || r.constant(id))) continue;
      r.set_argument(at, k, ValueRef{convert(id, at)});
    }
  }
  r.finish();
  return layers.size();
}

}  // namespace strata::engine
