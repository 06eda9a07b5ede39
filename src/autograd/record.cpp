// Recording: creates a node per op that ran on inputs requiring gradients, and updates histories after in-place writes.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "autograd/hooks.h"
#include "autograd/saved_hooks.h"
#include "autograd/watch.h"

namespace strata {

namespace {
std::atomic<uint64_t> next_order{1};

// Freeing a chain of a million nodes must not recurse a million levels deep: the outermost call frees the others. They
// are linked through their order, which a dying node no longer needs, so freeing allocates nothing.
STRATA_THREAD_LOCAL Node** dying = nullptr;

void free_node(History* history) {
  const auto free_one = [](Node* n) {
    n->~Node();
    Pool<Node>::give(n);
  };
  auto* node = static_cast<Node*>(history);
  if (dying) {
    node->order = reinterpret_cast<uintptr_t>(*dying);
    *dying = node;
    return;
  }
  Node* waiting = nullptr;
  const Scoped<Node**> scope(dying, &waiting);
  free_one(node);
  while (waiting) {
    Node* n = waiting;
    waiting = reinterpret_cast<Node*>(static_cast<uintptr_t>(n->order));
    free_one(n);
  }
}

}  // namespace

Ref<Node> new_node(const OpRecord& op) {
  auto node = Ref<Node>::adopt(new (Pool<Node>::take()) Node);
  node->op = &op;
  node->release = free_node;
  if (thread_state.anomaly_mode && autograd::current_line) [[unlikely]]
    node->more().where = autograd::current_line();
  return node;
}

// Called after finding the edges: that may update a view, and its new node must come before this one.
// Every second number is free for a plain node inside a node with hooks, which must run after it.
void give_order(Node& node) { node.order = next_order.fetch_add(2, std::memory_order_relaxed); }

namespace {
bool stale(const TensorImpl& t) { return t.base && t.base->rebases != t.rebases; }

// Threads that write to one tensor in place race for its values, but must not race for its history. Held only while
// pointers are copied or exchanged; taken only for tensors that have been written to.
std::mutex& history_lock(const TensorImpl& t) {
  static std::mutex locks[64];
  return locks[reinterpret_cast<uintptr_t>(&t) / sizeof(TensorImpl) % 64];
}

// Gives t the history of `value`, which was recorded for it.
void set_history(TensorImpl& t, const TensorImpl& value, uint32_t rebases) {
  Ref<History> before = value.history;
  {
    const std::lock_guard lock(history_lock(t));
    std::swap(t.history, before);
    t.output = value.output;
    t.requires_grad = true;
    t.rebases = rebases;
  }
  history_moved(t, before);
}

[[gnu::cold]] void check_origin(const TensorImpl& t, const char* event) {
  if (t.origin == ViewOrigin::Recorded) return;
  const Node* node = node_of(t);
  const std::string what = node ? fmt::format("Output {} of {} is a view and {}.", t.output, node->name(), event)
                                : fmt::format("A view was created in {} mode and {} with grad mode enabled.",
                                              t.origin == ViewOrigin::Inference ? "inference" : "no_grad", event);
  fail(ErrorKind::Runtime,
       what + (t.origin == ViewOrigin::CustomFunction
                 ? " This view was created inside a custom Function (or because an input was returned as-is), whose "
                   "backward the write would bypass. Clone the output of the Function first."
                 : " What its gradient should be is ambiguous. Make both the view and the in-place write inside of the "
                   "block, or both outside, or clone() the view."));
}

// For a view whose base was written to in place: its value is now a view of the base's new value.
void renew_view(TensorImpl& t) {
  TensorImpl& base = *t.base;
  const uint32_t rebases = base.rebases;
  if (!base.requires_grad || base.storage.get() != t.storage.get()) {  // the base has other memory now
    t.rebases = rebases;
    return;
  }
  check_origin(t, "its base or another view of its base has been modified inplace");
  static const OpRecord& strided_view = find_op("strided_view");
  Tensor value = shape_only(t);
  const Args args(Value(&base), IntList(t.sizes()), IntList(Shape(t.strides, t.ndim)),
                  t.storage_offset() - base.storage_offset());
  record_node(strided_view, args, &value, 1);
  set_history(t, *value, rebases);
}

}  // namespace

void attach(TensorImpl& t, const Ref<Node>& node, uint32_t output) {
  t.requires_grad = true;
  t.output = output;
  t.history = Ref<History>::share(node.get());
}

// The arguments whose values the gradient needs.
uint32_t saved_mask(const OpRecord& op, const Node& node) {
  uint32_t mask = op.saved_inputs;
  if (!node.edges[0]) mask &= ~op.saved_for_first;
  if (!node.edges[1]) mask &= ~op.saved_for_second;
  return mask;
}

std::string (*autograd::current_line)() = nullptr;

namespace {
// "index_put" -> "grad_fn=<IndexPutBackward0>", as PyTorch prints it.
std::string history_text(const TensorImpl& t) {
  const Node* node = node_of(t);
  if (!node) return t.requires_grad ? "requires_grad=True" : "";
  std::string name;
  bool upper = true;
  for (const char* c = node->name(); *c; ++c) {
    if (*c == '_' || *c == '.') upper = true;
    else {
      name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(*c))) : *c;
      upper = false;
    }
  }
  if (node->op->grad_fn || !node->custom()) name += "Backward0";  // a user's function has a record without a formula
  return "grad_fn=<" + name + ">";
}
[[maybe_unused]] const bool history_described = (describe_history = history_text, true);
}  // namespace

bool wants_grad(const Args& args) {
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor && (v.tensor->requires_grad || stale(*v.tensor))) return true;
    if (v.tag == Tag::Tensors)
      for (uint32_t k = 0; k < v.size; ++k)
        if (v.tensors[k] && (v.tensors[k]->requires_grad || stale(*v.tensors[k].get()))) return true;
  }
  return false;
}

namespace {
Node::Edge edge_of(TensorImpl& t) {
  Node::Edge edge;
  if (Node* from = node_of(t)) {
    edge.node = Ref<Node>::share(from);
    edge.output = t.output;
  } else edge.leaf = Ref<TensorImpl>::share(&t);
  return edge;
}
[[gnu::noinline]] Node::Edge edge_of_written(TensorImpl& t) {
  const std::lock_guard lock(history_lock(t));
  return edge_of(t);
}
}  // namespace

Node::Edge edge_to(TensorImpl& t) {
  if (stale(t)) [[unlikely]]
    renew_view(t);
  if (!t.requires_grad) return {};
  if (t.rebases) [[unlikely]]
    return edge_of_written(t);
  return edge_of(t);
}

void record_node(const OpRecord& op, const Args& args, Tensor* outs, uint32_t count) {
  if (autograd::packing) [[unlikely]]
    if (autograd::current_saved_hooks() && op.grad_fn && (op.saved_inputs || op.saved_outputs))
      return record_packed(op, args, outs, count);
  Ref<Node> node = new_node(op);
  bool keep_shapes = !op.broadcasts;  // a pointwise op with inputs like the output need not keep shapes
  for (uint32_t i = 0; i < args.size; ++i) {
    const Value& v = args[i];
    if (v.tag == Tag::Tensor) {
      keep_shapes |= !v.tensor->same_shape(*outs[0]) || v.tensor->dtype != outs[0]->dtype;
      const bool may_want = v.tensor->requires_grad || v.tensor->base;
      if (may_want && i < kMaxInputs && !(op.constant_inputs >> i & 1)) node->edges[i] = edge_to(*v.tensor);
    } else if (v.tag == Tag::Tensors) {
      node->list_edges.resize(v.size);
      for (uint32_t k = 0; k < v.size; ++k)
        if (v.tensors[k]) node->list_edges[k] = edge_to(*v.tensors[k].get());
    }
  }
  give_order(*node);
  const uint32_t mask = saved_mask(op, *node);
  for (uint32_t i = 0; i < args.size; ++i)
    if (mask >> i & 1 && args.is_tensor(i))
      STRATA_CHECK(!args.tensor(i).inference, Runtime,
                   "{}: an inference tensor cannot be saved for backward; clone it outside inference_mode() first",
                   op.name);
  node->args.save(args, mask, keep_shapes);
  node->outputs = count;
  for (uint32_t o = 0; o < count; ++o) {
    if (op.saved_outputs >> o & 1) {
      node->version = outs[o]->version();
      if (o < 2) {
        node->results[o] = alias(*outs[o]);
      } else {
        node->more_results.resize(count);
        node->more_results[o] = alias(*outs[o]);
      }
    }
    if (count > 1) node->output_shapes.push_back(shape_only(*outs[o]));
    if (is_differentiable(outs[o].dtype()) && !(op.integer_outputs >> o & 1)) attach(*outs[o], node, o);
  }
}

void rebase(TensorImpl& t, Tensor value) {
  if (!value->history) return;  // integers have no gradient
  if (!t.base || t.base->storage.get() != t.storage.get()) return set_history(t, *value, t.rebases + 1);
  // A write through a view: the base's new value is its old value with the view's part replaced.
  static const OpRecord& scatter = find_op("strided_scatter");
  TensorImpl& base = *t.base;
  STRATA_CHECK(
    t.dtype == base.dtype, NotImplemented,
    "an in-place write to a {} view of a {} tensor cannot be recorded; write under no_grad(), or compute a new "
    "tensor with complex()",
    name_of(t.dtype), name_of(base.dtype));
  Tensor whole = alias(base);
  const Args args(Value(&base), value, IntList(t.sizes()), IntList(Shape(t.strides, t.ndim)),
                  t.storage_offset() - base.storage_offset());
  record_node(scatter, args, &whole, 1);
  set_history(base, *whole, base.rebases + 1);
  renew_view(t);
}

void check_inplace(const TensorImpl& t, bool recorded, const char* op) {
  STRATA_CHECK(!t.inference || thread_state.inference_mode, Runtime,
               "{}_: Inplace update to inference tensor outside InferenceMode is not allowed; clone() it first", op);
  if (!thread_state.grad_mode) return;
  const bool of_base = t.base && t.base->requires_grad;
  if (t.base && (recorded || of_base)) {
    check_origin(t, "is being modified inplace");
    STRATA_CHECK(!(t.requires_grad || of_base) || t.base->history, Runtime,
                 "a view of a leaf Variable that requires grad is being used in an in-place operation ({}_); use "
                 "no_grad() or the out-of-place form",
                 op);
  }
  STRATA_CHECK(!t.requires_grad || t.history || stale(t), Runtime,
               "a leaf Variable that requires grad is being used in an in-place operation ({}_); use no_grad() or "
               "the out-of-place form",
               op);
}

bool Node::begin_reading() {
  uint32_t now = readers.load(std::memory_order_relaxed);
  while (!(now & kFreed))
    if (readers.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
  return false;
}

void Node::end_reading(bool free_saved) {
  uint32_t now = readers.load(std::memory_order_relaxed), next;
  do next = (now - 1) | (free_saved ? kFreed : 0);
  while (!readers.compare_exchange_weak(now, next, std::memory_order_acq_rel));
  if (next != kFreed) return;
  if (CustomGrad* c = custom()) return c->release();  // it may run again: the shapes of its inputs are kept
  args.clear();
  for (Tensor& r : results) r = {};
  more_results.clear();
}

bool among(const Tensor& t, std::span<const Tensor> list) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& other) { return other.get() == t.get(); });
}

namespace {
// An output of a user-defined function as an object that can get the function's history. If it shares memory with other
// tensors, it is a view that must not be written to: autograd would record the write, but not the function.
Tensor output_object(const Tensor& out, std::span<const Tensor> inputs, std::span<const Tensor> earlier) {
  const bool is_leaf = out.requires_grad() && !out->history;
  const bool known = is_leaf || among(out, inputs) || among(out, earlier);
  if (!known && !out->base && !out->history) return out;
  const bool is_view = known || (out->base && !autograd::has_only(*out->base, 1));
  Tensor object = known || out->history ? alias(*out) : out;
  object->base = !is_view ? Ref<TensorImpl>() : out->base ? out->base : Ref<TensorImpl>(out);
  object->rebases = is_view ? object->base->rebases : 0;
  object->origin = is_view ? ViewOrigin::CustomFunction : ViewOrigin::Recorded;
  return object;
}
}  // namespace

Node* autograd::record_custom(std::unique_ptr<CustomGrad> custom, std::span<const Tensor> inputs,
                              std::span<Tensor> outputs, std::span<const Tensor> dirty) {
  static OpRecord record = [] {
    OpRecord r;
    r.name = "Function";
    return r;
  }();
  for (const Tensor& t : dirty) {
    STRATA_CHECK(among(t, outputs), Runtime,
                 "{}: Some elements marked as dirty during the forward method were not returned as output. The inputs "
                 "that are modified inplace must all be outputs of the Function.",
                 custom->name());
    check_inplace(*t, true, custom->name());
  }
  Ref<Node> node = new_node(record);
  node->args.save(Args(TensorList(inputs)), 0);  // shapes, for the engine to check the gradients
  node->list_edges.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) node->list_edges[i] = edge_to(*inputs[i].get());
  give_order(*node);
  node->outputs = static_cast<uint32_t>(outputs.size());
  std::vector<std::pair<Tensor, Tensor>> written;  // a tensor, and an alias with its new history
  for (uint32_t o = 0; o < outputs.size(); ++o) {
    Tensor& out = outputs[o];
    node->output_shapes.push_back(out ? shape_only(*out) : Tensor());
    if (!out || !is_differentiable(out.dtype())) continue;
    if (among(out, dirty)) {
      attach(*written.emplace_back(out, alias(*out)).second, node, o);
    } else {
      out = output_object(out, inputs, outputs.first(o));
      attach(*out, node, o);
    }
  }
  node->more().custom = std::move(custom);
  for (const auto& [t, value] : written) rebase(*t, value);
  return node->refs.load(std::memory_order_relaxed) > 1 ? node.get()
                                                        : nullptr;  // owned by its outputs, if there are any
}

namespace {
[[gnu::cold, noreturn]] void modified(const Node& node, const TensorImpl& t, uint32_t saved) {
  fail(ErrorKind::Runtime,
       fmt::format(
         "one of the variables needed for gradient computation has been modified by an inplace operation: {} saved a "
         "{} tensor of "
         "shape {} at version {}, it is now at version {}. Use the out-of-place form, or clone() the tensor first.",
         node.name(), name_of(t.dtype), to_string(t.sizes()), saved, t.version()));
}
// The mistake of a definition, not of the user.
[[gnu::cold, noreturn]] void not_saved(const Node& node, std::string_view what, std::string_view call) {
  fail(ErrorKind::Runtime,
       fmt::format("{}: the gradient reads {}, which is not saved; add {} to the definition", node.name(), what, call));
}
}  // namespace

Tensor GradContext::input(uint32_t i) const {
  const Value& v = node_.args.view()[i];
  if (node_.op && !(node_.op->saved_inputs >> i & 1)) [[unlikely]] {
    const std::string_view name = node_.op->params[i].name;
    not_saved(node_, fmt::format("'{}'", name), fmt::format(".saves({{\"{}\"}})", name));
  }
  if (v.tag != Tag::Tensor) return {};
  if (v.tensor->version() != node_.args.version_of(i)) modified(node_, *v.tensor, node_.args.version_of(i));
  return Ref<TensorImpl>::share(v.tensor);
}

Operand GradContext::operand(uint32_t i) const {
  const Value& v = node_.args.view()[i];
  if (v.tag == Tag::Tensor && v.tensor->version() != node_.args.version_of(i))
    modified(node_, *v.tensor, node_.args.version_of(i));
  return Operand(v);
}

std::vector<Tensor> GradContext::input_list(uint32_t i) const {
  const TensorList list = node_.args.view()[i].tensor_list();
  for (uint32_t k = 0; k < list.size(); ++k)
    if (list[k] && list[k]->version() != node_.args.list_version_of(k))
      modified(node_, *list[k], node_.args.list_version_of(k));
  return {list.begin(), list.end()};
}

Tensor GradContext::result(uint32_t i) const {
  if (!(node_.op->saved_outputs >> i & 1)) [[unlikely]]
    not_saved(node_, "the result", ".saves_result()");
  const Tensor& saved = i < 2 ? node_.results[i] : node_.more_results[i];
  if (saved->version() != node_.version) modified(node_, *saved, node_.version);
  if (!thread_state.grad_mode) return saved;
  Tensor t = alias(*saved);  // for double backward it must carry this node as its history
  t->history = Ref<History>::share(const_cast<Node*>(&node_));
  t->output = i;
  t->requires_grad = true;
  return t;
}

Tensor GradContext::grad_or_zeros(uint32_t output) const {
  return grads_[output] ? grads_[output] : autograd::zeros_for(*node_.output_shapes[output]);
}

}  // namespace strata
