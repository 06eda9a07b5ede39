#include "engine/profile.h"
#include "engine/graph_names.h"

#include <algorithm>

namespace strata::engine {
namespace {

double elements(const ValueType& t) {
  double n = 1;
  for (const int64_t s : t.shape) n *= static_cast<double>(s);
  return n;
}
const ValueType* argument(const Graph& g, const Node& n, std::string_view name) {
  for (size_t i = 0; i < n.args.size(); ++i)
    if (n.op->params[i].name == name)
      if (const auto* ref = std::get_if<graph::ValueRef>(&n.args[i])) return &g.values[ref->id].type;
  return nullptr;
}

}  // namespace

double flops_of(const Graph& g, const Node& n) {
  if (n.results.empty() || n.results[0] == kNoValue) return 0;
  const std::string_view name = n.op->name;
  const ValueType& out = g.values[n.results[0]].type;
  const double each = elements(out);
  const ValueType* weight = argument(g, n, "weight");
  if (name.find("conv") != std::string_view::npos && weight && weight->shape.size() >= 3 && weight->shape[0] > 0)
    return 2 * each * elements(*weight) / static_cast<double>(weight->shape[0]);
  if (name.find("linear") != std::string_view::npos && weight && weight->shape.size() == 2)
    return 2 * each * static_cast<double>(weight->shape[1]);
  if (name.find("mm") != std::string_view::npos || name.find("matmul") != std::string_view::npos) {
    for (const char* first : {"mat1", "batch1", "input"})
      if (const ValueType* a = argument(g, n, first); a && a->shape.size() >= 2)
        return 2 * each * static_cast<double>(a->shape.back());
  }
  return 0;
}

int64_t bytes_of(const Graph& g, const Node& n) {
  int64_t bytes = 0;
  const auto add = [&](ValueId id) {
    if (id != kNoValue)
      bytes +=
        static_cast<int64_t>(elements(g.values[id].type)) * static_cast<int64_t>(size_of(g.values[id].type.dtype));
  };
  graph::for_each_use(n, add);
  for (const ValueId id : n.results) add(id);
  return bytes;
}

std::string name_of(const Graph& g, const Node& n) {
  std::string name = n.scope.empty() ? n.source : n.scope;
  if (name.empty() && !n.results.empty() && n.results[0] != kNoValue) name = g.values[n.results[0]].name;
  return name;
}

}  // namespace strata::engine
