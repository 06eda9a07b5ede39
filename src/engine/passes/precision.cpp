// Layers in 16 bits. A value has one dtype of its own, that of the op that makes it; where an op needs the other, it is converted, once.
#include <algorithm>
#include <array>
#include <map>

#include <fmt/core.h>

#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/retype.h"
#include "engine/passes/rewriter.h"
#include "engine/quantize/insert.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::kNoValue;
using graph::Node;
using graph::ValueId;
using graph::ValueList;
using graph::ValueRef;

// Ops that compute in float32 inside, or only move or compare elements. Norms, softmax and sums are not among them.
constexpr std::array kLowered = {"convolution",
                                 "_fused_convolution",
                                 "_convolution_relu",
                                 "linear",
                                 "_fused_linear",
                                 "linear_activation",
                                 "matmul",
                                 "mm",
                                 "bmm",
                                 "addmm",
                                 "baddbmm",
                                 "scaled_dot_product_attention",
                                 "relu",
                                 "leaky_relu",
                                 "hardtanh",
                                 "clamp",
                                 "clamp_min",
                                 "clamp_max",
                                 "gelu",
                                 "silu",
                                 "hardswish",
                                 "hardsigmoid",
                                 "mish",
                                 "tanh",
                                 "sigmoid",
                                 "elu_scaled",
                                 "add",
                                 "sub",
                                 "mul",
                                 "maximum",
                                 "minimum",
                                 "reshape",
                                 "view",
                                 "permute",
                                 "transpose",
                                 "flatten",
                                 "squeeze",
                                 "unsqueeze",
                                 "narrow",
                                 "slice",
                                 "select",
                                 "cat",
                                 "stack",
                                 "constant_pad_nd",
                                 "clone",
                                 "contiguous",
                                 "expand",
                                 "_max_pool_codes",
                                 "max_pool1d"};

bool may_be_low(const Node& n) {
  std::string_view name = n.op->name;
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) name = name.substr(dot + 1);
  const bool known = std::ranges::any_of(kLowered, [&](const char* k) { return name == k; });
  const bool names_dtype =
    std::ranges::any_of(n.args, [](const graph::Argument& a) { return std::holds_alternative<DType>(a); });
  return known && !names_dtype && n.form == Form::Plain && n.bodies.empty() && !graph::count_written(n);
}

class Lowering {
 public:
  Lowering(const graph::Graph& g, DType low, const CalibrationTable* table, const PassOptions& options)
      : g_(g), low_(low), table_(low == DType::F16 ? table : nullptr), options_(options) {
    for (const graph::Graph::State& s : g.states)
      if (!s.named && !s.tensor.requires_grad()) constants_.emplace(s.id, s.tensor);
  }

  size_t run() {
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    size_t lowered = 0;
    for (Node& n : nodes) {
      if (may_be_low(n) && is_in_range(n) && lower(n)) {
        ++lowered;
        continue;
      }
      convert(n, DType::F32);
      g_.nodes.push_back(std::move(n));
    }
    for (ValueId& id : g_.outputs) id = in_dtype(id, DType::F32);
    return lowered;
  }
  graph::Graph take() { return std::move(g_); }

 private:
  bool is_in_range(const Node& n) const {
    if (!table_) return true;
    bool fits = true;
    const auto check = [&](ValueId id) {
      if (id == kNoValue || !fits) return;
      const auto found = table_->large.find(table_name(g_.values[id].name));
      if (found == table_->large.end()) return;
      fits = false;
      if (options_.decisions)
        options_.decisions->push_back(
          {"lower_precision", place_of(n),
           fmt::format("stays in float32: {} reaches {:.3g}, and float16 ends at 65504", found->first, found->second),
           false});
    };
    graph::for_each_use(n, check);
    for (const ValueId id : n.results) check(id);
    return fits;
  }

  // The value in another of the two dtypes, by a conversion that is made once. Others stay as they are.
  ValueId in_dtype(ValueId id, DType wanted) {
    if (id == kNoValue) return id;
    const graph::ValueType type = g_.values[id].type;
    const bool converts =
      type.dtype != wanted && (wanted == DType::F32 ? type.dtype == low_ && made_low_[id] : type.dtype == DType::F32);
    if (!converts) return id;
    const auto [known, is_new] = converted_.try_emplace(id, kNoValue);
    if (!is_new) return known->second;
    graph::ValueType other = type;
    other.dtype = wanted;
    const auto constant = constants_.find(id);
    const ValueId made = static_cast<ValueId>(g_.values.size());
    const std::string name = fmt::format("{}.{}", g_.values[id].name, name_of(wanted));
    if (constant != constants_.end()) {
      const Tensor t = to(constant->second, wanted);
      g_.values.push_back({graph::type_of(*t), unused(name)});
      g_.states.push_back({made, t, false});
    } else {
      g_.values.push_back({other, unused(name)});
      Node like;
      like.no_grad = true;
      g_.nodes.push_back(
        Rewriter::make(op_to_copy, {ValueRef{id}, wanted, graph::Argument(), graph::Argument(), false}, {made}, like));
    }
    if (wanted == low_) made_low_[made] = true;
    return converted_[id] = made;
  }
  std::string unused(std::string name) {
    if (names_.empty())
      for (const graph::Graph::Value& v : g_.values) names_.insert(v.name);
    while (!names_.insert(name).second) name += "_";
    return name;
  }
  void convert(Node& n, DType wanted) {
    for (graph::Argument& a : n.args) {
      if (auto* ref = std::get_if<ValueRef>(&a)) ref->id = in_dtype(ref->id, wanted);
      if (auto* list = std::get_if<ValueList>(&a))
        for (ValueId& id : list->ids) id = in_dtype(id, wanted);
    }
  }
  bool lower(const Node& n) {
    bool floats = !n.results.empty();
    for (const ValueId id : n.results)
      floats &= id != kNoValue && (g_.values[id].type.dtype == DType::F32 || !is_floating(g_.values[id].type.dtype));
    floats &= g_.values[n.results[0]].type.dtype == DType::F32;
    if (!floats) return false;
    Node low = n;
    convert(low, low_);
    std::vector<graph::ValueType> types;
    try {
      types = result_types(g_, low, false);
    } catch (const Error&) { return false; }
    if (types[0].dtype != low_) return false;
    for (size_t k = 0; k < types.size(); ++k) {
      g_.values[low.results[k]].type = types[k];
      if (types[k].dtype == low_) made_low_[low.results[k]] = true;
    }
    g_.nodes.push_back(std::move(low));
    return true;
  }

  graph::Graph g_;
  const DType low_;
  const CalibrationTable* table_;
  const PassOptions& options_;
  std::map<ValueId, Tensor> constants_;
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, bool> made_low_;  // values that are in the lower precision by this pass
  std::set<std::string> names_;
};
}  // namespace

size_t lower_precision(graph::Graph& g, DType low, const CalibrationTable* table, const PassOptions& options) {
  const autograd::NoGrad off;
  const size_t before = g.nodes.size();
  Lowering lowering(g, low, table, options);
  const size_t count = lowering.run();
  if (!count) return 0;
  graph::Graph lowered = lowering.take();
  graph::verify(lowered);
  g = std::move(lowered);
  Rewriter(g, options, "lower_precision").finish();
  if (options.decisions)
    options.decisions->push_back(
      {"lower_precision", "the whole graph", fmt::format("{} of {} nodes compute in {}", count, before, name_of(low))});
  return 0;
}

}  // namespace strata::engine
