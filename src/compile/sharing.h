// Which values of a graph may share memory.
#pragma once
#include <algorithm>
#include <numeric>

#include "compile/graph.h"

namespace strata::graph {

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

}  // namespace strata::graph
