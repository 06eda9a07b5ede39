// Hooks and retained gradients: where they are kept, so that threads may add and remove them while others run backward.
#pragma once
#include <mutex>

#include "autograd/autograd.h"

namespace strata {

// What a tensor has of them. Hooks of a computed tensor are in its node.
struct GradExtra : TensorExtra {
  std::vector<std::pair<int64_t, Hook>> hooks;      // of a leaf
  std::vector<std::pair<int64_t, LeafHook>> after;  // of a leaf, once its .grad is complete
  std::shared_ptr<TensorImpl*> retained;            // of a computed tensor: how its node finds it without owning it
  std::vector<Ref<History>> earlier;                // histories before in-place writes that have hooks, to remove them
  ~GradExtra() override;
};
inline GradExtra* extra_of(const TensorImpl& t) { return static_cast<GradExtra*>(t.extra.get()); }

// Guards the lists of all tensors and nodes. Held while a list is read or changed, never while a hook runs or is destroyed:
// that may wait for Python's lock, whose owner may wait for this one.
std::mutex& hook_lock();

bool has_hooks(const TensorImpl& leaf);
// The gradient after the hooks of a leaf, or of an output of a node, have seen it.
Tensor run_hooks(const TensorImpl& leaf, Tensor g);
void run_hooks(const Node& node, const std::function<Tensor&(uint32_t output)>& grad_of);
void run_after_hooks(const Tensor& leaf);
// Adds a gradient to t.grad, which then belongs to nobody else.
void add_to_grad(const Tensor& t, const Tensor& g);
// Call it when t got another history than before: a gradient it retains is that of its new value; hooks stay with the old one.
void history_moved(TensorImpl& t, const Ref<History>& before);

namespace autograd {

// For the garbage collector of a language above: hooks, and the gradient of a user-defined function, that live only as long as
// t does. `t` must have one owner, whose collector asks.
struct OwnedVisitor {
  virtual ~OwnedVisitor() = default;
  virtual void hook(const Hook&) = 0;
  virtual void leaf_hook(const LeafHook&) = 0;
  virtual void custom(const CustomGrad&) = 0;
};
STRATA_API void visit_owned(const TensorImpl& t, OwnedVisitor& visitor);
STRATA_API void drop_owned(TensorImpl& t);  // the same things: they are part of a cycle that nobody reaches any more

}  // namespace autograd
}  // namespace strata
