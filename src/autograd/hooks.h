// Hooks and retained gradients. Threads may add and remove them while others run backward.
#pragma once
#include <mutex>

#include "autograd/sparse_grad.h"

namespace strata {

// Hooks of a leaf and related data. Hooks of other tensors are in their node.
struct GradExtra : TensorExtra {
  std::vector<std::pair<int64_t, Hook>> hooks;      // of a leaf
  std::vector<std::pair<int64_t, LeafHook>> after;  // of a leaf, once its .grad is complete
  std::shared_ptr<TensorImpl*> retained;            // of a non-leaf tensor: lets its node find it without owning it
  std::vector<Ref<History>> earlier;                // histories before in-place writes that have hooks, to remove them
  std::unique_ptr<autograd::SparseParts> sparse;    // of a sparse tensor
  ~GradExtra() override;
};
inline GradExtra* extra_of(const TensorImpl& t) { return static_cast<GradExtra*>(t.extra.get()); }

// Guards the lists of all tensors and nodes. Held while a list is read or changed, never while a hook runs or is
// destroyed: that may wait for Python's lock, whose owner may wait for this one.
std::mutex& hook_lock();

bool has_hooks(const TensorImpl& leaf);
// Runs the hooks of a leaf, or of an output of a node; returns the resulting gradient.
Tensor run_hooks(const TensorImpl& leaf, Tensor g);
void run_hooks(const Node& node, const std::function<Tensor&(uint32_t output)>& grad_of);
void run_after_hooks(const Tensor& leaf);
// Accumulates a gradient into t.grad, which then has no other owner.
void add_to_grad(const Tensor& t, const Tensor& g);
// Call it when the history of t changes: its retained gradient is that of its new value; hooks stay with the old one.
void history_moved(TensorImpl& t, const Ref<History>& before);

namespace autograd {

// For the garbage collector of a language above: visits hooks, and the gradient of a user-defined function, that only t
// owns. `t` must have one owner, whose collector calls this.
struct OwnedVisitor {
  virtual ~OwnedVisitor() = default;
  virtual void hook(const Hook&) = 0;
  virtual void leaf_hook(const LeafHook&) = 0;
  virtual void custom(const CustomGrad&) = 0;
};
STRATA_API void visit_owned(const TensorImpl& t, OwnedVisitor& visitor);
STRATA_API void drop_owned(TensorImpl& t);  // releases the same objects: they are part of an unreachable cycle

}  // namespace autograd
}  // namespace strata
