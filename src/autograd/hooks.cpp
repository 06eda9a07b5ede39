#include "autograd/hooks.h"

#include <algorithm>

namespace strata {
namespace {

std::atomic<int64_t> next_hook{1};

GradExtra& make_extra(TensorImpl& t) { return t.extra.make<GradExtra>(); }

// A tensor returned by a hook replaces the gradient, so it must have the same shape and dtype.
void replace(Tensor& g, Tensor other) {
  if (!other) return;
  STRATA_CHECK(other->same_shape(*g), Runtime, "a hook has changed the size of the gradient: it was {}, it is now {}",
               to_string(g.shape()), to_string(other.shape()));
  STRATA_CHECK(other.dtype() == g.dtype(), Runtime,
               "a hook has changed the dtype of the gradient: it was {}, it is now {}", name_of(g.dtype()),
               name_of(other.dtype()));
  g = std::move(other);
}

// Moves the entries for which `gone` is true out of a list, to be destroyed after the lock is released.
template <class List, class Gone> void take_out(List& list, List& into, Gone gone) {
  const auto first = std::stable_partition(list.begin(), list.end(), [&](const auto& e) { return !gone(e); });
  std::move(first, list.end(), std::back_inserter(into));
  list.erase(first, list.end());
}
}  // namespace

std::mutex& hook_lock() {
  static std::mutex lock;
  return lock;
}

GradExtra::~GradExtra() {
  if (!retained) return;
  const std::lock_guard lock(hook_lock());
  *retained = nullptr;
}

bool has_hooks(const TensorImpl& leaf) {
  const GradExtra* extra = extra_of(leaf);
  if (!extra) [[likely]]
    return false;
  const std::lock_guard lock(hook_lock());
  return !extra->hooks.empty() || !extra->after.empty();
}

Tensor run_hooks(const TensorImpl& leaf, Tensor g) {
  std::vector<std::pair<int64_t, Hook>> hooks;
  {
    const std::lock_guard lock(hook_lock());
    hooks = extra_of(leaf)->hooks;
  }
  for (const auto& [id, hook] : hooks) replace(g, hook(g));
  return g;
}

void run_after_hooks(const Tensor& leaf) {
  std::vector<std::pair<int64_t, LeafHook>> hooks;
  {
    const std::lock_guard lock(hook_lock());
    hooks = extra_of(*leaf)->after;
  }
  for (const auto& [id, hook] : hooks) hook(leaf);
}

void add_to_grad(const Tensor& t, const Tensor& g) {
  static const OpRecord &clone = find_op("clone"), &add = find_op("add");
  const Tensor before = t.grad();
  Tensor(t).set_grad(before ? call(add, Args(before, g, 1)) : call(clone, Args(g, Value())));
}

void run_hooks(const Node& node, const std::function<Tensor&(uint32_t)>& grad_of) {
  std::vector<Node::Rare::OutputHook> hooks;
  {
    const std::lock_guard lock(hook_lock());
    hooks = node.rare->hooks;
  }
  for (const auto& h : hooks)
    if (Tensor& g = grad_of(h.output)) replace(g, h.hook(g));
  // A retained gradient is stored into a tensor that the node does not own, and that another thread may be releasing.
  // The tensor is destroyed under the lock (see ~GradExtra), so a store under the lock goes to a live tensor.
  std::vector<std::pair<uint32_t, std::shared_ptr<TensorImpl*>>> retained;
  {
    const std::lock_guard lock(hook_lock());
    retained = node.rare->retained;
  }
  for (const auto& [output, slot] : retained) {
    const Tensor& g = grad_of(output);
    if (!g) continue;
    const Tensor holder = shape_only(*g);
    {
      const std::lock_guard lock(hook_lock());
      if (*slot) holder->grad = (*slot)->shared_grad();
    }
    add_to_grad(holder, g);
    const std::lock_guard lock(hook_lock());
    if (*slot) (*slot)->swap_grad(holder->grad);
  }
}

void history_moved(TensorImpl& t, const Ref<History>& before) {
  const auto* old = static_cast<const Node*>(before.get());
  Node* now = node_of(t);
  if (!old || old == now || !old->rare) return;
  const std::lock_guard lock(hook_lock());
  if (!old->rare->hooks.empty()) make_extra(t).earlier.push_back(before);
  const GradExtra* extra = extra_of(t);
  if (!extra || !extra->retained) return;
  std::erase_if(old->rare->retained, [&](const auto& entry) { return entry.second == extra->retained; });
  if (now) now->more().retained.emplace_back(t.output, extra->retained);
}

namespace autograd {

int64_t register_hook(const Tensor& t, Hook hook) {
  const Node::Edge edge = edge_to(t.checked());
  STRATA_CHECK(edge, Runtime, "cannot register a hook on a tensor that doesn't require gradient");
  const int64_t id = next_hook++;
  const std::lock_guard lock(hook_lock());
  if (edge.node) edge.node->more().hooks.push_back({id, edge.output, std::move(hook)});
  else make_extra(*t).hooks.emplace_back(id, std::move(hook));
  return id;
}

int64_t register_post_accumulate_grad_hook(const Tensor& t, LeafHook hook) {
  STRATA_CHECK(
    t.checked().requires_grad, Runtime,
    "register_post_accumulate_grad_hook: the tensor does not require a gradient; call requires_grad_() first");
  STRATA_CHECK(
    is_leaf(t), Runtime,
    "register_post_accumulate_grad_hook: only leaves accumulate gradients, and this tensor was computed; use "
    "register_hook");
  const int64_t id = next_hook++;
  const std::lock_guard lock(hook_lock());
  make_extra(*t).after.emplace_back(id, std::move(hook));
  return id;
}

void remove_hook(const Tensor& t, int64_t id) {
  std::vector<Node::Rare::OutputHook> of_node;
  std::vector<std::pair<int64_t, Hook>> hooks;
  std::vector<std::pair<int64_t, LeafHook>> after;
  const Ref<History> history = t.checked().history;
  const std::lock_guard lock(hook_lock());
  const auto from_node = [&](const Ref<History>& h) {
    const auto* node = static_cast<const Node*>(h.get());
    if (node && node->rare) take_out(node->rare->hooks, of_node, [&](const auto& hook) { return hook.id == id; });
  };
  const auto named = [&](const auto& entry) { return entry.first == id; };
  from_node(history);
  GradExtra* extra = extra_of(*t);
  if (!extra) return;
  for (const Ref<History>& h : extra->earlier) from_node(h);
  take_out(extra->hooks, hooks, named);
  take_out(extra->after, after, named);
}

void retain_grad(const Tensor& t) {
  const Node::Edge edge = edge_to(t.checked());
  STRATA_CHECK(edge, Runtime, "can't retain_grad on Tensor that has requires_grad=False");
  if (!edge.node || retains_grad(t)) return;  // a leaf keeps its gradient anyway
  auto slot = std::make_shared<TensorImpl*>(t.get());
  const std::lock_guard lock(hook_lock());
  make_extra(*t).retained = slot;
  edge.node->more().retained.emplace_back(edge.output, std::move(slot));
}

bool retains_grad(const Tensor& t) {
  const GradExtra* extra = extra_of(t.checked());
  const std::lock_guard lock(hook_lock());
  return extra && extra->retained;
}

void visit_owned(const TensorImpl& t, OwnedVisitor& visitor) {
  if (t.refs.load(std::memory_order_relaxed) != 1) return;
  const std::lock_guard lock(hook_lock());
  if (const GradExtra* extra = extra_of(t)) {
    for (const auto& [id, hook] : extra->hooks) visitor.hook(hook);
    for (const auto& [id, hook] : extra->after) visitor.leaf_hook(hook);
  }
  const Node* node = node_of(t);
  if (!node || node->refs.load(std::memory_order_relaxed) != 1 || !node->rare) return;
  for (const auto& h : node->rare->hooks) visitor.hook(h.hook);
  if (node->rare->custom) visitor.custom(*node->rare->custom);
}

void drop_owned(TensorImpl& t) {
  const Ref<History> history = std::move(t.history);  // releases a node that has no other owner, with its hooks
  std::vector<std::pair<int64_t, Hook>> hooks;
  std::vector<std::pair<int64_t, LeafHook>> after;
  const std::lock_guard lock(hook_lock());
  if (GradExtra* extra = extra_of(t)) {
    hooks.swap(extra->hooks);
    after.swap(extra->after);
  }
}

}  // namespace autograd
}  // namespace strata
