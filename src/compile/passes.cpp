#include "compile/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/autograd.h"

namespace strata::graph {
namespace {

void replace(Argument& a, const std::vector<ValueId>& by) {
  if (auto* ref = std::get_if<ValueRef>(&a)) ref->id = by[ref->id];
  if (auto* list = std::get_if<ValueList>(&a))
    for (ValueId& id : list->ids)
      if (id != kNoValue) id = by[id];
}

// Removes the marked nodes, then the states that nobody uses any more, except those the caller named.
size_t remove(Graph& g, const std::vector<bool>& marked) {
  size_t kept = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (!marked[i]) {
      if (kept != i) g.nodes[kept] = std::move(g.nodes[i]);
      ++kept;
    }
  const size_t removed = g.nodes.size() - kept;
  g.nodes.resize(kept);
  std::vector<bool> used(g.values.size(), false);
  for (const Node& n : g.nodes) for_each_use(n, [&](ValueId id) { used[id] = true; });
  for (const ValueId id : g.outputs) used[id] = true;
  for (const Graph::Write& w : g.writes) used[w.target] = used[w.value] = true;
  std::erase_if(g.states, [&](const Graph::State& s) { return !s.named && !used[s.id]; });
  verify(g);
  return removed;
}

}  // namespace

size_t remove_unused(Graph& g) {
  std::vector<bool> needed(g.values.size(), false), marked(g.nodes.size(), false);
  for (const ValueId id : g.outputs) needed[id] = true;
  for (const Graph::Write& w : g.writes) needed[w.value] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& n = g.nodes[i];
    marked[i] =
      !n.op->random && std::ranges::none_of(n.results, [&](ValueId id) { return id != kNoValue && needed[id]; });
    if (!marked[i]) for_each_use(n, [&](ValueId id) { needed[id] = true; });
  }
  return remove(g, marked);
}

size_t merge_equal(Graph& g) {
  std::vector<ValueId> by(g.values.size());
  for (ValueId id = 0; id < by.size(); ++id) by[id] = id;
  std::vector<bool> marked(g.nodes.size(), false), returned(g.values.size(), false);
  for (const ValueId id : g.outputs) returned[id] = true;  // the caller may write to one and not the other
  std::map<const OpRecord*, std::vector<size_t>> seen;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    for (Argument& a : n.args) replace(a, by);
    const auto is_returned = [&](ValueId id) { return id != kNoValue && returned[id]; };
    if (n.op->random || std::ranges::any_of(n.results, is_returned)) continue;
    std::vector<size_t>& others = seen[n.op];
    const auto same = std::ranges::find_if(others, [&](size_t k) {
      const Node& o = g.nodes[k];
      return o.form == n.form && o.args == n.args && o.no_grad == n.no_grad && o.results.size() == n.results.size() &&
             std::ranges::equal(o.results, n.results, [&](ValueId a, ValueId b) {
               return a != kNoValue && b != kNoValue && g.values[a].same_type(g.values[b]);
             });
    });
    if (same == others.end()) {
      others.push_back(i);
      continue;
    }
    marked[i] = true;
    for (size_t k = 0; k < n.results.size(); ++k) by[n.results[k]] = g.nodes[*same].results[k];
  }
  for (Graph::Write& w : g.writes) w.value = by[w.value];
  return remove(g, marked);
}

size_t fold_constants(Graph& g, int64_t max_bytes) {
  std::set<ValueId> constant, written;
  for (const Graph::Write& w : g.writes) written.insert(w.target);
  for (const Graph::State& s : g.states)
    if (!s.named && !s.tensor.requires_grad() && !written.contains(s.id)) constant.insert(s.id);
  std::vector<bool> marked(g.nodes.size(), false);
  Graph part;  // the nodes that are computed now
  part.values = g.values;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    bool known = !n.op->random;
    for_each_use(n, [&](ValueId id) { known &= constant.contains(id); });
    for (const Argument& a : n.args) known &= !std::holds_alternative<Size>(a) && !std::holds_alternative<Sizes>(a);
    for (const ValueId id : n.results)
      known &= id == kNoValue || (g.values[id].shape.empty() && g.values[id].strides.empty());
    int64_t bytes = 0;
    for (const ValueId id : n.results) {
      if (id == kNoValue) continue;
      int64_t size = static_cast<int64_t>(size_of(g.values[id].type.dtype));
      for (const int64_t s : g.values[id].type.shape) size *= s;
      bytes += size;
    }
    if (!known || bytes > max_bytes) continue;
    marked[i] = true;
    part.nodes.push_back(n);
    for (const ValueId id : n.results)
      if (id != kNoValue) constant.insert(id);
  }
  if (part.nodes.empty()) return 0;
  // What the other nodes and the outputs use of their results.
  std::set<ValueId> used(g.outputs.begin(), g.outputs.end());
  for (const Graph::Write& w : g.writes) used.insert(w.value);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (!marked[i]) for_each_use(g.nodes[i], [&](ValueId id) { used.insert(id); });
  for (const Graph::State& s : g.states)
    if (constant.contains(s.id)) part.states.push_back(s);
  for (const Node& n : part.nodes)
    for (const ValueId id : n.results)
      if (used.contains(id)) part.outputs.push_back(id);
  const autograd::NoGrad off;
  const std::vector<Tensor> values = run(part, {});
  for (size_t k = 0; k < values.size(); ++k) g.states.push_back({part.outputs[k], values[k], false});
  return remove(g, marked);
}

}  // namespace strata::graph
