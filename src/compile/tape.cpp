#include "compile/tape.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "autograd/hooks.h"
#include "autograd/saved_hooks.h"

namespace strata::graph {

uint64_t next_order() {
  const Ref<TapeNode> probe = strata::new_node(find_op("clone"));
  strata::give_order(*probe);
  return probe->order;
}

// Whether the values that a node has saved are those of another version now.
static bool is_overwritten(const TapeNode& n) {
  const Args& args = n.args.view();
  for (uint32_t i = 0; i < args.size; ++i) {
    if (!(n.op->saved_inputs >> i & 1)) continue;
    const Value& v = args[i];
    if (v.tag == Tag::Tensor && v.tensor->storage && v.tensor->version() != n.args.version_of(i)) return true;
    if (v.tag != Tag::Tensors) continue;
    const TensorList list = v.tensor_list();
    for (uint32_t k = 0; k < list.size(); ++k)
      if (list[k] && list[k]->storage && list[k]->version() != n.args.list_version_of(k)) return true;
  }
  for (uint32_t o = 0; o < 2; ++o)
    if ((n.op->saved_outputs >> o & 1) && n.results[o] && n.results[o]->version() != n.version) return true;
  return false;
}

Tape tape_of(std::span<const Tensor> results, uint64_t first_order) {
  Tape tape;
  std::set<const TapeNode*> seen;
  std::vector<const TapeNode*> open;
  const auto visit = [&](const TapeNode* n) {
    if (n && n->order >= first_order && seen.insert(n).second) open.push_back(n);
  };
  for (const Tensor& t : results)
    if (t && t->requires_grad) visit(edge_to(*t).node.get());  // a view gets the history of later writes to its base
  while (!open.empty()) {
    const TapeNode* n = open.back();
    open.pop_back();
    const bool freed = n->readers.load(std::memory_order_acquire) & TapeNode::kFreed;
    if (freed && (!tape.freed || tape.freed->order < n->order)) tape.freed = n;
    if (!freed && !n->custom() && is_overwritten(*n))
      tape.beyond_ops = fmt::format("overwrites what {} has saved for its gradient", n->name());
    if (n->custom()) tape.beyond_ops = fmt::format("records a gradient that is no op's ({})", n->name());
    else if (n->rare && (!n->rare->hooks.empty() || !n->rare->retained.empty()))
      tape.beyond_ops = fmt::format("has a hook or retain_grad() on a result of {}", n->name());
    for (const TapeNode::Edge& e : n->edges) visit(e.node.get());
    for (const TapeNode::Edge& e : n->list_edges) visit(e.node.get());
  }
  return tape;
}

std::vector<Tensor> leaves_of(std::span<const Tensor> roots) {
  std::vector<Tensor> leaves;
  std::set<const void*> seen;
  std::vector<const TapeNode*> open;
  const auto visit = [&](const TapeNode::Edge& e) {
    if (e.node && seen.insert(e.node.get()).second) open.push_back(e.node.get());
    if (e.leaf && seen.insert(e.leaf.get()).second) leaves.push_back(e.leaf);
  };
  for (const Tensor& t : roots)
    if (t) visit(edge_to(*t));
  while (!open.empty()) {
    const TapeNode* n = open.back();
    open.pop_back();
    for (const TapeNode::Edge& e : n->edges) visit(e);
    for (const TapeNode::Edge& e : n->list_edges) visit(e);
  }
  return leaves;
}

std::vector<int64_t> hooks_of(const TensorImpl& t) {
  std::vector<int64_t> ids;
  const GradExtra* extra = extra_of(t);
  const TapeNode* node = node_of(t);
  if (!extra && !(node && node->rare)) [[likely]]
    return ids;
  const std::lock_guard lock(hook_lock());
  if (extra) {
    for (const auto& [id, hook] : extra->hooks) ids.push_back(id);
    for (const auto& [id, hook] : extra->after) ids.push_back(id);
  }
  if (node && node->rare)
    for (const auto& h : node->rare->hooks)
      if (h.output == t.output) ids.push_back(h.id);
  return ids;
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
