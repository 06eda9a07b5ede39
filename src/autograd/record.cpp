// Recording: a node per op that ran on inputs wanting gradients, and how in-place writes change a tensor's history.
#include <algorithm>
#include <atomic>

#include "autograd/autograd.h"

namespace strata {

namespace {
std::atomic<uint64_t> next_order{1};

// A chain of a million nodes must not be a recursion a million deep: the outermost call frees the others.
STRATA_THREAD_LOCAL std::vector<Node*>* dying = nullptr;

void free_node(History* history) {
  const auto free_one = [](Node* n) {
    n->~Node();
    Pool<Node>::give(n);
  };
  auto* node = static_cast<Node*>(history);
  if (dying) return dying->push_back(node);
  std::vector<Node*> list;
  Scoped<std::vector<Node*>*> scope(dying, &list);
  free_one(node);
  while (!list.empty()) {
    Node* n = list.back();
    list.pop_back();
    free_one(n);
  }
}

Ref<Node> new_node(const OpRecord& op) {
  auto node = Ref<Node>::adopt(new (Pool<Node>::take()) Node);
  node->order = next_order.fetch_add(1, std::memory_order_relaxed);
  node->op = &op, node->release = free_node;
  if (thread_state.anomaly_mode && autograd::current_line) [[unlikely]]
    node->more().where = autograd::current_line();
  return node;
}

bool stale(const TensorImpl& t) { return t.base && t.base->rebases != t.rebases; }

// A view whose base was written to in place since: its value is now a view of the base's new value.
void renew_view(TensorImpl& t) {
  TensorImpl& base = *t.base;
  t.rebases = base.rebases;
  if (!base.requires_grad) return;
  static const OpRecord& strided_view = find_op("strided_view");
  Tensor self = Ref<TensorImpl>::share(&t);
  const Args args(Value(&base), IntList(t.sizes()), IntList(Shape(t.strides, t.ndim)),
                  t.storage_offset() - base.storage_offset());
  record_node(strided_view, args, &self, 1);
}

void attach(TensorImpl& t, const Ref<Node>& node, uint8_t output) {
  t.requires_grad = true;
  t.output = output;
  t.history = Ref<History>::share(node.get());
}
}  // namespace

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
    else name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(*c))) : *c, upper = false;
  }
  if (!(node->rare && node->rare->custom)) name += "Backward0";
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

Node::Edge edge_to(TensorImpl& t) {
  if (stale(t)) [[unlikely]]
    renew_view(t);
  Node::Edge edge;
  if (!t.requires_grad) return edge;
  if (Node* from = node_of(t)) edge.node = Ref<Node>::share(from), edge.output = t.output;
  else edge.leaf = Ref<TensorImpl>::share(&t);
  return edge;
}

void record_node(const OpRecord& op, const Args& args, Tensor* outs, uint32_t count) {
  Ref<Node> node = new_node(op);
  bool keep_shapes = !op.broadcasts;  // a pointwise op whose inputs look like the output need not keep shapes
  for (uint32_t i = 0; i < args.size; ++i) {
    const Value& v = args[i];
    if (v.tag == Tag::Tensor) {
      keep_shapes |= !v.tensor->same_shape(*outs[0]) || v.tensor->dtype != outs[0]->dtype;
      if (i < kMaxInputs && !(op.constant_inputs >> i & 1)) node->edges[i] = edge_to(*v.tensor);
    } else if (v.tag == Tag::Tensors) {
      node->list_edges.resize(v.size);
      for (uint32_t k = 0; k < v.size; ++k)
        if (v.tensors[k]) node->list_edges[k] = edge_to(*v.tensors[k].get());
    }
  }
  uint32_t mask = op.saved_inputs;
  if (op.cross_saved) mask &= ~((node->edges[1] ? 0u : 1u) | (node->edges[0] ? 0u : 2u));
  for (uint32_t i = 0; i < args.size; ++i)
    if (mask >> i & 1 && args.is_tensor(i))
      STRATA_CHECK(!args.tensor(i).inference, Runtime,
                   "{}: an inference tensor cannot be saved for backward; clone it outside inference_mode() first",
                   op.name);
  node->args.save(args, mask, keep_shapes);
  node->outputs = static_cast<uint8_t>(count);
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
    if (is_floating(outs[o].dtype()) && !(op.integer_outputs >> o & 1)) attach(*outs[o], node, static_cast<uint8_t>(o));
  }
}

void rebase(TensorImpl& t, Tensor value) {
  if (!t.base) {
    t.history = value->history, t.output = value->output, t.requires_grad = true;
    ++t.rebases;
    return;
  }
  // The write went through a view: the base's new value is its old value with the view's part replaced.
  static const OpRecord& scatter = find_op("strided_scatter");
  TensorImpl& base = *t.base;
  Tensor whole = alias(base);
  const Args args(Value(&base), value, IntList(t.sizes()), IntList(Shape(t.strides, t.ndim)),
                  t.storage_offset() - base.storage_offset());
  record_node(scatter, args, &whole, 1);
  base.history = whole->history, base.output = whole->output, base.requires_grad = true;
  ++base.rebases;
  renew_view(t);
}

void autograd::record_custom(std::unique_ptr<CustomGrad> custom, std::span<const Tensor> inputs,
                             std::span<Tensor> outputs) {
  static OpRecord record = [] {
    OpRecord r;
    r.name = "Function";
    return r;
  }();
  Ref<Node> node = new_node(record);
  node->args.save(Args(TensorList(inputs)), 0);  // shapes, for the engine to check the gradients with
  node->list_edges.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) node->list_edges[i] = edge_to(*inputs[i].get());
  node->outputs = static_cast<uint8_t>(outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    node->output_shapes.push_back(outputs[o] ? shape_only(*outputs[o]) : Tensor());
    if (outputs[o] && is_floating(outputs[o].dtype())) attach(*outputs[o], node, static_cast<uint8_t>(o));
  }
  node->more().custom = std::move(custom);
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
}  // namespace

Tensor GradContext::input(uint32_t i) const {
  const Value& v = node_.args.view()[i];
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
  const Tensor& saved = i < 2 ? node_.results[i] : node_.more_results[i];
  if (saved->version() != node_.version) modified(node_, *saved, node_.version);
  if (!thread_state.grad_mode) return saved;
  Tensor t = alias(*saved);  // for a gradient of the gradient it must know that this node made it
  t->history = Ref<History>::share(const_cast<Node*>(&node_)), t->output = static_cast<uint8_t>(i),
  t->requires_grad = true;
  return t;
}

Tensor GradContext::grad_or_zeros(uint32_t output) const {
  return grads_[output] ? grads_[output] : autograd::zeros_for(*node_.output_shapes[output]);
}

}  // namespace strata
