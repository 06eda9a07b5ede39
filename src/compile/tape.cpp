#include "compile/tape.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "autograd/saved_hooks.h"

namespace strata::graph {

uint64_t next_order() {
  const Ref<TapeNode> probe = strata::new_node(find_op("clone"));
  strata::give_order(*probe);
  return probe->order;
}

Tape tape_of(std::span<const Tensor> results, uint64_t first_order) {
  Tape tape;
  std::set<const TapeNode*> seen;
  std::vector<const TapeNode*> open;
  const auto visit = [&](const TapeNode* n) {
    if (n && n->order >= first_order && seen.insert(n).second) open.push_back(n);
  };
  for (const Tensor& t : results)
    if (t) visit(node_of(*t));
  while (!open.empty()) {
    const TapeNode* n = open.back();
    open.pop_back();
    const bool freed = n->readers.load(std::memory_order_acquire) & TapeNode::kFreed;
    if (freed && (!tape.freed || tape.freed->order < n->order)) tape.freed = n;
    if (n->custom()) tape.beyond_ops = fmt::format("records a gradient that is no op's ({})", n->name());
    else if (n->rare && (!n->rare->hooks.empty() || !n->rare->retained.empty()))
      tape.beyond_ops = fmt::format("has a hook or retain_grad() on a result of {}", n->name());
    for (const TapeNode::Edge& e : n->edges) visit(e.node.get());
    for (const TapeNode::Edge& e : n->list_edges) visit(e.node.get());
  }
  return tape;
}

std::vector<Ref<Storage>> saved_by(const TapeNode& n) {
  std::vector<Ref<Storage>> memory;
  const auto add = [&](const Tensor& t) {
    if (t && t->storage) memory.push_back(t->storage);
  };
  for (const Value& v : n.args.view()) {
    if (v.tag == Tag::Tensor && v.tensor->storage) memory.push_back(v.tensor->storage);
    if (v.tag == Tag::Tensors) std::ranges::for_each(v.tensor_list(), add);
  }
  std::ranges::for_each(n.results, add);
  std::ranges::for_each(n.more_results, add);
  return memory;
}

}  // namespace strata::graph
