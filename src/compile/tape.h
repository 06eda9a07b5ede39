// What a followed program has put on the tape.
#pragma once
#include <string>
#include <vector>

#include "autograd/node.h"

namespace strata::graph {

using TapeNode = strata::Node;

uint64_t next_order();  // the order that the next node on this thread's tape gets

// The tape of results since then.
struct Tape {
  // backward() has used it: the first node that another backward() finds without what it had saved.
  const TapeNode* freed = nullptr;
  // What a graph would not record: functions of the user, hooks, retained gradients, saved values that were overwritten, so that
  // backward() raises. Empty: nothing.
  std::string beyond_ops;
};
Tape tape_of(std::span<const Tensor> results, uint64_t first_order);
// The leaves that gradients of these tensors go to.
STRATA_API std::vector<Tensor> leaves_of(std::span<const Tensor> roots);
// The hooks that gradients of this tensor run, by number.
std::vector<int64_t> hooks_of(const TensorImpl& t);
// The memory of what a node has saved.
std::vector<Ref<Storage>> saved_by(const TapeNode& n);

}  // namespace strata::graph
