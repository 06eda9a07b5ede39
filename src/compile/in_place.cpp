// Which values a run of a graph writes to the memory of those that they replace.
#include <algorithm>
#include <numeric>

#include "compile/graph.h"

namespace strata::graph {
namespace {

constexpr size_t kReturned = SIZE_MAX;

// Values that may share memory, because an op returned one for another, have one root.
class Sharing {
 public:
  explicit Sharing(const Graph& g) : root_(g.values.size()) {
    std::iota(root_.begin(), root_.end(), ValueId{0});
    for (const Node& n : g.nodes) join_results(n);
  }
  ValueId root(ValueId id) const {
    while (root_[id] != id) id = root_[id];
    return id;
  }

 private:
  void join(ValueId a, ValueId b) {
    if (a != kNoValue && b != kNoValue) root_[root(a)] = root(b);
  }
  void join_results(const Node& n) {
    if (n.form != Form::Plain) return;  // what is written to gets a memory of its own, or its successor's
    const size_t plain = n.results.size() - count_written(n);
    for (size_t k = 0; k < plain; ++k) {
      const std::string& letters = n.op->shared;
      const char letter = letters.empty() ? 0 : letters[std::min(k, letters.size() - 1)];
      for (uint32_t i = 0; i < n.args.size(); ++i) {
        const bool shares = n.op->view_fn ? i == 0 : letter && letter != ' ' && n.op->params[i].memory == letter;
        if (!shares) continue;
        if (const auto* ref = std::get_if<ValueRef>(&n.args[i])) join(n.results[k], ref->id);
        if (const auto* list = std::get_if<ValueList>(&n.args[i]))
          for (const ValueId id : list->ids) join(n.results[k], id);
      }
    }
  }

  std::vector<ValueId> root_;
};

// The types of its results do not depend on values. That also holds for most ops that are not listed here.
bool has_fixed_types(const Node& n) {
  static const OpRecord& scatter = find_op("as_strided_scatter");
  if (!n.bodies.empty()) return false;
  return n.form != Form::Plain || n.op->outputs == 0 || n.op->view_fn || n.op->formulas || n.op == &scatter;
}

}  // namespace

std::vector<bool> overwriting(const Graph& g) {
  const Sharing sharing(g);
  // The last node that uses memory, and how often that node does; the caller's uses come after all nodes.
  std::vector<size_t> last(g.values.size(), 0), times(g.values.size(), 0);
  const auto use = [&](ValueId id, size_t at) {
    const ValueId root = sharing.root(id);
    times[root] = last[root] == at ? times[root] + 1 : 1;
    last[root] = at;
  };
  size_t first_safe = 0;  // no node from here on can find that the graph does not fit
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for_each_use(g.nodes[i], [&](ValueId id) { use(id, i + 1); });
    if (!has_fixed_types(g.nodes[i])) first_safe = i + 1;
  }
  for (const ValueId id : g.outputs) use(id, kReturned);
  std::vector<ValueId> replaced(g.values.size(), kNoValue);  // by result: the value that it may overwrite
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for_each_written(g.nodes[i], [&](ValueId old, ValueId now) {
      if (old == kNoValue || now == kNoValue) return;
      const ValueId root = sharing.root(old);
      const Graph::Value &before = g.values[old], &after = g.values[now];
      if (i >= first_safe && last[root] == i + 1 && times[root] == 1 && before.same_type(after)) replaced[now] = old;
    });
  // Of these, the ones that end up in the input or state whose memory they were written to.
  std::vector<bool> in_place(g.values.size(), false);
  for (const Graph::Write& w : g.writes) {
    ValueId id = w.value;
    while (id != w.target && replaced[id] != kNoValue) id = replaced[id];
    const auto same = [&](const Graph::Write& o) { return sharing.root(o.value) == sharing.root(w.value); };
    const bool returned = last[sharing.root(w.value)] == kReturned;
    if (id != w.target || returned || std::ranges::count_if(g.writes, same) != 1) continue;
    for (id = w.value; id != w.target; id = replaced[id]) in_place[id] = true;
  }
  return in_place;
}

}  // namespace strata::graph
