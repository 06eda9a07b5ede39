#include "compile/passes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "autograd/autograd.h"
#include "compile/control.h"
#include "compile/sharing.h"

namespace strata::graph {
namespace {

void replace(Argument& a, const std::vector<ValueId>& by) {
  if (auto* ref = std::get_if<ValueRef>(&a)) ref->id = by[ref->id];
  if (auto* list = std::get_if<ValueList>(&a))
    for (ValueId& id : list->ids)
      if (id != kNoValue) id = by[id];
}

// Removes the marked nodes.
size_t remove(Graph& g, const std::vector<bool>& marked) {
  size_t kept = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (!marked[i]) {
      if (kept != i) g.nodes[kept] = std::move(g.nodes[i]);
      ++kept;
    }
  const size_t removed = g.nodes.size() - kept;
  g.nodes.resize(kept);
  return removed;
}
// At the end of a pass: removes the states that nobody uses any more, except those the caller named.
void finish(Graph& g) {
  std::vector<bool> used(g.values.size(), false);
  for (const Node& n : g.nodes) for_each_use(n, [&](ValueId id) { used[id] = true; });
  for (const ValueId id : g.outputs) used[id] = true;
  for (const Graph::Write& w : g.writes) used[w.target] = used[w.value] = true;
  std::erase_if(g.states, [&](const Graph::State& s) { return !s.named && !used[s.id]; });
  verify(g);
}

template <class T> void erase_at(std::vector<T>& list, size_t at) {
  list.erase(list.begin() + static_cast<ptrdiff_t>(at));
}

// --- unused -----------------------------------------------------------------------------------------------------------
// The results that a node need not have: those of branches, and the stacked ones of a scan.
void drop_results(Node& n, const std::vector<bool>& needed) {
  const Control control = control_of(*n.op);
  const size_t first = control == Control::Cond   ? 0
                       : control == Control::Scan ? list_of(n, kInit).size()
                                                  : n.results.size();
  for (size_t k = n.results.size(); k-- > first;) {
    if (needed[n.results[k]]) continue;
    erase_at(n.results, k);
    for (Graph& body : n.bodies) erase_at(body.outputs, k);
  }
}
// What no body uses of the values from outside.
void drop_arguments(Node& n) {
  std::vector<ValueId>& others = std::get<ValueList>(n.args[list_of_others(control_of(*n.op))]).ids;
  const size_t first = first_of_others(n);
  std::vector<std::vector<bool>> used;
  for (const Graph& body : n.bodies) {
    std::vector<bool>& of_body = used.emplace_back(body.values.size(), false);
    for (const Node& inner : body.nodes) for_each_use(inner, [&](ValueId id) { of_body[id] = true; });
    for (const ValueId id : body.outputs) of_body[id] = true;
  }
  for (size_t k = others.size(); k-- > 0;) {
    bool any = false;
    for (size_t b = 0; b < n.bodies.size(); ++b) any |= used[b][n.bodies[b].inputs[first + k]];
    if (any) continue;
    erase_at(others, k);
    for (Graph& body : n.bodies) erase_at(body.inputs, first + k);
  }
}

size_t remove_unused_of(Graph& g) {
  std::vector<bool> needed(g.values.size(), false), marked(g.nodes.size(), false);
  for (const ValueId id : g.outputs) needed[id] = true;
  for (const Graph::Write& w : g.writes) needed[w.value] = true;
  size_t inside = 0;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    Node& n = g.nodes[i];
    marked[i] = !draws_random_numbers(n) &&
                std::ranges::none_of(n.results, [&](ValueId id) { return id != kNoValue && needed[id]; });
    if (marked[i]) continue;
    if (!n.bodies.empty()) {
      drop_results(n, needed);
      for (Graph& body : n.bodies) inside += remove_unused_of(body);
      drop_arguments(n);
    }
    for_each_use(n, [&](ValueId id) { needed[id] = true; });
  }
  return inside + remove(g, marked);
}

// --- equal ------------------------------------------------------------------------------------------------------------
bool same_node(const Node& a, const Node& b, const Graph& of_a, const Graph& of_b);
// Equal but for names and sources.
bool same_graph(const Graph& a, const Graph& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs && a.nodes.size() == b.nodes.size() &&
         std::ranges::all_of(a.inputs, [&](ValueId id) { return a.values[id].same_type(b.values[id]); }) &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(),
                    [&](const Node& x, const Node& y) { return x.results == y.results && same_node(x, y, a, b); });
}
bool same_node(const Node& a, const Node& b, const Graph& of_a, const Graph& of_b) {
  return a.op == b.op && a.form == b.form && a.args == b.args && a.no_grad == b.no_grad &&
         std::ranges::equal(a.results, b.results,
                            [&](ValueId x, ValueId y) {
                              return x == kNoValue || y == kNoValue ? x == y : of_a.values[x].same_type(of_b.values[y]);
                            }) &&
         std::ranges::equal(a.bodies, b.bodies, same_graph);
}

// Equal for equal nodes, so that each is compared with few others.
uint64_t hash_of_uses(const Node& n) {
  uint64_t hash = n.args.size();
  for_each_use(n, [&](ValueId id) {
    hash = (hash ^ id) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  });
  return hash;
}

size_t merge_equal_of(Graph& g) {
  std::vector<ValueId> by(g.values.size());
  for (ValueId id = 0; id < by.size(); ++id) by[id] = id;
  std::vector<bool> marked(g.nodes.size(), false), returned(g.values.size(), false);
  for (const ValueId id : g.outputs) returned[id] = true;  // the caller may write to one and not the other
  std::map<std::pair<const OpRecord*, uint64_t>, std::vector<size_t>> seen;
  size_t inside = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    for (Argument& a : n.args) replace(a, by);
    for (Graph& body : n.bodies) inside += merge_equal_of(body);
    const auto lasts = [&](ValueId id) { return id == kNoValue || returned[id]; };
    if (draws_random_numbers(n) || std::ranges::any_of(n.results, lasts)) continue;
    std::vector<size_t>& others = seen[{n.op, hash_of_uses(n)}];
    const auto same = std::ranges::find_if(others, [&](size_t k) { return same_node(g.nodes[k], n, g, g); });
    if (same == others.end()) {
      others.push_back(i);
      continue;
    }
    marked[i] = true;
    for (size_t k = 0; k < n.results.size(); ++k) by[n.results[k]] = g.nodes[*same].results[k];
  }
  for (Graph::Write& w : g.writes) w.value = by[w.value];
  return inside + remove(g, marked);
}

// --- constants --------------------------------------------------------------------------------------------------------
using Constants = std::map<ValueId, Tensor>;

ValueId new_value(Graph& g, const Graph::Value& like) {
  std::set<std::string> names;
  for (const Graph::Value& v : g.values) names.insert(v.name);
  Graph::Value& value = g.values.emplace_back(like);
  while (names.contains(value.name)) value.name += "_";
  return static_cast<ValueId>(g.values.size() - 1);
}

class Folding {
 public:
  explicit Folding(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Computes what depends on the constants. New ones are added to `made`: values that are no results of nodes any more.
  size_t fold(Graph& g, Constants constants, Constants& made) const {
    size_t inside = 0;
    std::vector<bool> marked(g.nodes.size(), false);
    std::set<ValueId> known;
    for (const auto& [id, tensor] : constants) known.insert(id);
    Graph part;  // the nodes that are computed now
    part.values = g.values;
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      if (!can_compute(g, g.nodes[i], known)) continue;
      marked[i] = true;
      part.nodes.push_back(g.nodes[i]);
      for (const ValueId id : g.nodes[i].results)
        if (id != kNoValue) known.insert(id);
    }
    if (!part.nodes.empty()) compute(g, part, constants, marked, made);
    inside += remove(g, marked);
    constants.insert(made.begin(), made.end());
    for (Node& n : g.nodes)
      if (!n.bodies.empty()) inside += fold_bodies(g, n, constants, made);
    return inside;
  }

 private:
  bool can_compute(const Graph& g, const Node& n, const std::set<ValueId>& known) const {
    bool can = !draws_random_numbers(n) && !may_not_end(n);
    for_each_use(n, [&](ValueId id) { can &= known.contains(id); });
    if (!can || n.results.empty()) return false;
    const auto varies = [](const Graph& part) {
      for (const Node& node : part.nodes)
        for (const Argument& a : node.args)
          if (std::holds_alternative<Size>(a) || std::holds_alternative<Sizes>(a)) return true;
      return std::ranges::any_of(part.values,
                                 [](const Graph::Value& v) { return !v.shape.empty() || !v.strides.empty(); });
    };
    for (const Argument& a : n.args)
      if (std::holds_alternative<Size>(a) || std::holds_alternative<Sizes>(a)) return false;
    for (const Graph& body : n.bodies) {
      bool any = false;
      for_each_graph(body, [&](const Graph& part) { any |= varies(part); });
      if (any) return false;
    }
    int64_t bytes = 0;
    for (const ValueId id : n.results) {
      if (id == kNoValue) continue;
      if (!g.values[id].shape.empty() || !g.values[id].strides.empty()) return false;
      int64_t size = static_cast<int64_t>(size_of(g.values[id].type.dtype));
      for (const int64_t s : g.values[id].type.shape) size *= s;
      bytes += size;
    }
    return bytes <= max_bytes_;
  }
  static bool may_not_end(const Node& n) {
    return control_of(*n.op) == Control::While || std::ranges::any_of(n.bodies, [](const Graph& body) {
             return std::ranges::any_of(body.nodes, may_not_end);
           });
  }
  static void compute(const Graph& g, Graph& part, const Constants& constants, const std::vector<bool>& marked,
                      Constants& made) {
    std::set<ValueId> used(g.outputs.begin(), g.outputs.end());  // by the other nodes and the caller
    for (const Graph::Write& w : g.writes) used.insert(w.value);
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (!marked[i]) for_each_use(g.nodes[i], [&](ValueId id) { used.insert(id); });
    for (const auto& [id, tensor] : constants) part.states.push_back({id, tensor, false});
    for (const Node& n : part.nodes)
      for (const ValueId id : n.results)
        if (used.contains(id)) part.outputs.push_back(id);
    const autograd::NoGrad off;
    const std::vector<Tensor> values = run(part, {});
    for (size_t k = 0; k < values.size(); ++k) made.emplace(part.outputs[k], values[k]);
  }
  // The constants that a body makes become arguments of the node.
  size_t fold_bodies(Graph& g, Node& n, const Constants& constants, Constants& made) const {
    size_t removed = 0;
    const size_t list = list_of_others(control_of(*n.op));
    for (size_t b = 0; b < n.bodies.size(); ++b) {
      Constants given, inner;
      const std::vector<ValueId>& others = list_of(n, list);
      for (size_t k = 0; k < others.size(); ++k)
        if (const auto found = constants.find(others[k]); found != constants.end())
          given.emplace(n.bodies[b].inputs[first_of_others(n) + k], found->second);
      Graph body = n.bodies[b];
      size_t count = 0;
      try {
        count = fold(body, std::move(given), inner);
      } catch (const Error&) { continue; }  // a call that no run may ever make
      removed += count;
      n.bodies[b] = std::move(body);
      for (const auto& [id, tensor] : inner) {
        const Graph::Value value = n.bodies[b].values[id];
        const ValueId outside = new_value(g, value);
        std::get<ValueList>(n.args[list]).ids.push_back(outside);
        for (size_t k = 0; k < n.bodies.size(); ++k)
          n.bodies[k].inputs.push_back(k == b ? id : new_value(n.bodies[k], value));
        made.emplace(outside, tensor);
      }
    }
    if (removed) drop_arguments(n);
    return removed;
  }

  const int64_t max_bytes_;
};

}  // namespace

size_t remove_unused(Graph& g) {
  const size_t removed = remove_unused_of(g);
  finish(g);
  return removed;
}
size_t merge_equal(Graph& g) {
  const size_t removed = merge_equal_of(g);
  finish(g);
  return removed;
}
namespace {
// A kernel's results are new memory; those of composites and of the user's ops may be what they were given.
bool makes_memory(const Node& n) {
  return n.form == Form::Plain && n.bodies.empty() && n.op->infer_fn && !n.op->composite_fn && !n.op->view_fn &&
         n.op->name.find("::") == std::string::npos;
}
int64_t elements(const Graph::Value& v) {
  return std::accumulate(v.type.shape.begin(), v.type.shape.end(), int64_t{1}, std::multiplies<>());
}

// Memory that a call of the graph makes, and the values that show it.
struct Made {
  bool known = true;     // nothing else may share it
  int64_t elements = 0;  // of the value that the call returned
  size_t last = 0;       // the node that uses it last, counted from 1; kReturned: the caller does
  size_t times = 0;      // that it does
};
constexpr size_t kReturned = SIZE_MAX;
}  // namespace

size_t remove_copies(Graph& g) {
  static const OpRecord& clone = find_op("clone");
  const Sharing sharing(g);
  std::vector<Made> made(g.values.size());  // by root
  const auto of = [&](ValueId id) -> Made& { return made[sharing.root(id)]; };
  const auto use = [&](ValueId id, size_t at) {
    Made& m = of(id);
    m.times = m.last == at ? m.times + 1 : 1;
    m.last = at;
  };
  for (const ValueId id : g.inputs) of(id).known = false;
  for (const Graph::State& s : g.states) of(s.id).known = false;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    for_each_use(n, [&](ValueId id) { use(id, i + 1); });
    const size_t plain = n.results.size() - (n.form == Form::Plain ? count_written(n) : 0);
    for (size_t k = 0; k < n.results.size(); ++k) {
      const ValueId id = n.results[k];
      if (id == kNoValue) continue;
      if (makes_memory(n) && k < plain && !Sharing::of_result(n, k)) of(id).elements = elements(g.values[id]);
      else if (k >= plain || !Sharing::of_result(n, k)) of(id).known = false;
    }
  }
  for (const ValueId id : g.outputs) use(id, kReturned);
  for (const Graph::Write& w : g.writes) use(w.value, kReturned);
  std::vector<bool> marked(g.nodes.size(), false);
  std::vector<ValueId> by(g.values.size());
  std::iota(by.begin(), by.end(), ValueId{0});
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (n.op != &clone || n.form != Form::Plain) continue;
    const ValueId from = std::get<ValueRef>(n.args[0]).id, to = n.results[0];
    const Made& m = of(from);
    marked[i] = m.known && m.last == i + 1 && m.times == 1 && m.elements == elements(g.values[from]) &&
                g.values[from].same_type(g.values[to]);
    if (marked[i]) by[to] = by[from];
  }
  for (Node& n : g.nodes)
    for (Argument& a : n.args) replace(a, by);
  for (ValueId& id : g.outputs) id = by[id];
  for (Graph::Write& w : g.writes) w.value = by[w.value];
  return remove(g, marked);
}

size_t fold_constants(Graph& g, int64_t max_bytes) {
  std::set<ValueId> written;
  for (const Graph::Write& w : g.writes) written.insert(w.target);
  Constants constants, made;
  for (const Graph::State& s : g.states)
    if (!s.named && !s.tensor.requires_grad() && !written.contains(s.id)) constants.emplace(s.id, s.tensor);
  const size_t removed = Folding(max_bytes).fold(g, std::move(constants), made);
  for (const auto& [id, tensor] : made) g.states.push_back({id, tensor, false});
  finish(g);
  return removed;
}

}  // namespace strata::graph
