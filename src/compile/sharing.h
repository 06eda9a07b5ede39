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
  // The parameters with which a result may share memory, as a mask.
  static uint32_t of_result(const Node& n, size_t k) {
    if (n.op->view_fn) return 1;
    const std::string& letters = n.op->shared;
    const char letter = letters.empty() ? ' ' : letters[std::min(k, letters.size() - 1)];
    uint32_t mask = 0;
    for (uint32_t i = 0; letter != ' ' && i < n.args.size(); ++i)
      if (n.op->params[i].memory == letter) mask |= uint32_t{1} << i;
    return mask;
  }

 private:
  void join(ValueId a, ValueId b) {
    if (a != kNoValue && b != kNoValue) root_[root(a)] = root(b);
  }
  void join_results(const Node& n) {
    if (n.form != Form::Plain) return;  // what is written to gets a memory of its own, or its successor's
    const size_t plain = n.results.size() - count_written(n);
    for (size_t k = 0; k < plain; ++k) {
      const uint32_t with = of_result(n, k);
      for (uint32_t i = 0; i < n.args.size(); ++i) {
        if (!(with >> i & 1)) continue;
        if (const auto* ref = std::get_if<ValueRef>(&n.args[i])) join(n.results[k], ref->id);
        if (const auto* list = std::get_if<ValueList>(&n.args[i]))
          for (const ValueId id : list->ids) join(n.results[k], id);
      }
    }
  }

  std::vector<ValueId> root_;
};

}  // namespace strata::graph
