// Saved-tensor hooks: what a graph keeps for backward in the place of tensors, such as copies on another device.
#pragma once
#include <memory>

#include "autograd/autograd.h"

namespace strata::autograd {

// pack is called with each tensor that an op saves (without its history), unpack when backward needs the tensor again.
struct SavedTensorHooks {
  std::function<std::shared_ptr<void>(const Tensor&)> pack;
  std::function<Tensor(const std::shared_ptr<void>&)> unpack;
};

STRATA_THREAD_LOCAL_DECL extern constinit thread_local int packing;  // how many hooks are active on this thread
// The hooks of this thread, the innermost last; null: none. Ops that are recorded meanwhile use the innermost ones.
STRATA_API const std::shared_ptr<const SavedTensorHooks>* current_saved_hooks();
STRATA_API void push_saved_hooks(SavedTensorHooks hooks);
STRATA_API void pop_saved_hooks();
// Makes push_saved_hooks() on this thread raise the message; returns the previous one. Empty: allowed.
STRATA_API std::string forbid_saved_hooks(std::string message);

// A tensor in packed form.
class STRATA_API PackedTensor {
 public:
  PackedTensor(const std::shared_ptr<const SavedTensorHooks>& hooks, const Tensor& t);
  Tensor unpack() const;

 private:
  std::shared_ptr<const SavedTensorHooks> hooks_;
  std::shared_ptr<void> packed_;
  Tensor like_;  // its shape and dtype
};

}  // namespace strata::autograd

namespace strata {

// An unpacked tensor with the history of the packed one, for double backward; t itself if grad mode is off.
STRATA_API Tensor with_history(const Tensor& t, const Node::Edge& edge);
// record_node() under hooks: the node keeps packed tensors.
void record_packed(const OpRecord& op, const Args& args, Tensor* outs, uint32_t count);
// The gradients of a node's inputs by the formula of its op.
Grads apply_formula(const Node& node, const std::vector<Tensor>& given, bool create_graph);
// Reverses broadcasting and promotion of a gradient.
Tensor match_input(Tensor g, const TensorImpl& input);
Ref<Node> new_node(const OpRecord& op);
void give_order(Node& node);
uint32_t saved_mask(const OpRecord& op, const Node& node);
void attach(TensorImpl& t, const Ref<Node>& node, uint32_t output);

}  // namespace strata
