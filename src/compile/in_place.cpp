// Which values a run of a graph writes to the memory of those that they replace.
#include <algorithm>

#include "compile/sharing.h"

namespace strata::graph {
namespace {

constexpr size_t kReturned = SIZE_MAX;

// The types of its results do not depend on values. That also holds for most ops that are not listed here.
bool has_fixed_types(const Node& n) {
  static const OpRecord* const fixed[] = {&find_op("as_strided_scatter"),
                                          &find_op("as_strided"),
                                          &find_op("detach"),
                                          &find_op("clone"),
                                          &find_op("reshape"),
                                          &find_op("mean"),
                                          &find_op("mean", "dim"),
                                          &find_op("sum"),
                                          &find_op("sum", "dim")};
  if (!n.bodies.empty()) return false;
  return n.form != Form::Plain || n.op->outputs == 0 || n.op->view_fn || n.op->formulas ||
         std::ranges::find(fixed, n.op) != std::end(fixed);
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
  std::vector<uint32_t> writes(g.values.size(), 0);  // of values of a root
  for (const Graph::Write& w : g.writes) ++writes[sharing.root(w.value)];
  for (const Graph::Write& w : g.writes) {
    ValueId id = w.value;
    while (id != w.target && replaced[id] != kNoValue) id = replaced[id];
    const ValueId root = sharing.root(w.value);
    if (id != w.target || last[root] == kReturned || writes[root] != 1) continue;
    for (id = w.value; id != w.target; id = replaced[id]) in_place[id] = true;
  }
  return in_place;
}

}  // namespace strata::graph
