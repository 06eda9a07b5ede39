// Nodes under saved-tensor hooks. Such a node is a CustomGrad that holds the packed tensors; its backward unpacks them into
// a plain node of the op and runs the op's formula on that.
#include "autograd/saved_hooks.h"

#include <algorithm>

namespace strata {
namespace autograd {
STRATA_THREAD_LOCAL int packing = 0;
namespace {
struct HookStack {
  std::vector<std::shared_ptr<const SavedTensorHooks>> hooks;
  std::string forbidden;
  bool paused = false;  // while a hook runs: its own ops save tensors as usual
};
thread_local HookStack stack;
}  // namespace

const std::shared_ptr<const SavedTensorHooks>* current_saved_hooks() {
  return stack.hooks.empty() || stack.paused ? nullptr : &stack.hooks.back();
}
void push_saved_hooks(SavedTensorHooks hooks) {
  STRATA_CHECK(stack.forbidden.empty(), Runtime, "{}", stack.forbidden);
  stack.hooks.push_back(std::make_shared<const SavedTensorHooks>(std::move(hooks)));
  ++packing;
}
void pop_saved_hooks() {
  STRATA_CHECK(!stack.hooks.empty(), Runtime, "no saved-tensor hooks are active on this thread");
  const auto last = std::move(stack.hooks.back());  // destroyed after the stack has changed: that may run user code
  stack.hooks.pop_back();
  --packing;
}
std::string forbid_saved_hooks(std::string message) {
  STRATA_CHECK(message.empty() || stack.hooks.empty(), Runtime, "{}", message);
  return std::exchange(stack.forbidden, std::move(message));
}

PackedTensor::PackedTensor(const std::shared_ptr<const SavedTensorHooks>& hooks, const Tensor& t)
    : hooks_(hooks), like_(shape_only(*t)) {
  const Scoped paused(stack.paused, true);
  const NoGrad no_grad;
  const Tensor plain = detach(t);
  const uint32_t version = plain->version();
  packed_ = hooks_->pack(plain);
  STRATA_CHECK(plain->version() == version, Runtime, "A saved tensor pack hook is modifying its input in place.");
}

Tensor PackedTensor::unpack() const {
  const Scoped paused(stack.paused, true);
  const NoGrad no_grad;
  Tensor t = hooks_->unpack(packed_);
  STRATA_CHECK(t && t->same_shape(*like_), Runtime,
               "a saved-tensor unpack hook must return a tensor like the one that was packed, of shape {}; got {}",
               to_string(like_.shape()), t ? to_string(t.shape()) : std::string("none"));
  return t;
}
}  // namespace autograd

namespace {
using autograd::PackedTensor;

// The tensors among the arguments of an op, in order.
std::vector<Tensor> tensors_among(const Args& args) {
  std::vector<Tensor> found;
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) found.push_back(Ref<TensorImpl>::share(v.tensor));
    if (v.tag == Tag::Tensors) found.insert(found.end(), v.tensors, v.tensors + v.size);
  }
  return found;
}

class PackedGrad : public CustomGrad {
 public:
  const OpRecord& op;
  SavedArgs args;                 // of tensors the shapes
  uint64_t order = 0;             // of the plain node
  std::vector<Node::Edge> edges;  // of the tensors among the arguments
  std::vector<Tensor> output_shapes;
  std::vector<std::pair<size_t, PackedTensor>> inputs;     // by place among the tensors
  std::vector<std::pair<uint32_t, PackedTensor>> results;  // by output
  uint32_t outputs = 1, mask = 0;                          // mask: the saved arguments
  bool freed = false;
  Ref<Node> plain;  // kept by a pass that creates a graph, which leads to it

  explicit PackedGrad(const OpRecord& record) : op(record) {}
  const char* name() const override { return op.name.c_str(); }
  void release() override {
    freed = true;
    inputs.clear();
    results.clear();
    plain = {};
  }

  std::vector<Tensor> apply(const std::vector<Tensor>& given, bool create_graph) override {
    if (freed) autograd::fail_used_up(name());
    const bool kept = plain && !(plain->readers.load(std::memory_order_acquire) & Node::kFreed);
    Ref<Node> node = kept ? plain : unpacked();
    if (create_graph) plain = node;
    Grads found = apply_formula(*node, given, create_graph);
    return by_place(found);
  }

 private:
  // The gradients of the tensors among the arguments.
  std::vector<Tensor> by_place(Grads& found) const {
    std::vector<Tensor> result;
    const Args& given = args.view();
    for (uint32_t i = 0; i < given.size; ++i) {
      if (given[i].tag == Tag::Tensor) {
        const bool has = i < kMaxInputs && found.t[i] && edges[result.size()];
        result.push_back(has ? match_input(std::move(found.t[i]), *given[i].tensor) : Tensor());
      } else if (given[i].tag == Tag::Tensors) {
        for (uint32_t k = 0; k < given[i].size; ++k)
          result.push_back(k < found.list.size() ? std::move(found.list[k]) : Tensor());
      }
    }
    return result;
  }

  // A node as record_node() makes it, with the tensors that the hooks return.
  Ref<Node> unpacked() const {
    Ref<Node> node = new_node(op);
    node->order = order;
    node->outputs = outputs;
    Args full = args.view();
    std::vector<Tensor> tensors = tensors_among(full);
    for (const auto& [place, packed] : inputs) tensors[place] = with_history(packed.unpack(), edges[place]);
    std::vector<Tensor> list;
    size_t place = 0;
    for (uint32_t i = 0; i < full.size; ++i) {
      if (full[i].tag == Tag::Tensor) {
        if (i < kMaxInputs) node->edges[i] = edges[place];
        full[i] = Value(tensors[place++].get());
      } else if (full[i].tag == Tag::Tensors) {
        list.assign(tensors.begin() + static_cast<ptrdiff_t>(place),
                    tensors.begin() + static_cast<ptrdiff_t>(place + full[i].size));
        node->list_edges.assign(edges.begin() + static_cast<ptrdiff_t>(place),
                                edges.begin() + static_cast<ptrdiff_t>(place + full[i].size));
        place += full[i].size;
        full[i] = Value(TensorList(std::span<const Tensor>(list)));
      }
    }
    node->args.save(full, mask, true);
    for (const auto& [o, packed] : results) {
      const Tensor result = packed.unpack();
      Tensor own = data_of(*result);  // counts its own writes, as all results have one version in a node
      node->version = own->version();
      if (o < 2) {
        node->results[o] = std::move(own);
      } else {
        node->more_results.resize(outputs);
        node->more_results[o] = std::move(own);
      }
    }
    node->output_shapes = output_shapes;
    return node;
  }
};
}  // namespace

Grads apply_formula(const Node& node, const std::vector<Tensor>& given, bool create_graph) {
  const OpRecord& op = *node.op;
  Tensor grads[kMaxOutputs];
  std::copy(given.begin(), given.end(), grads);
  if (!grads[0] && node.outputs > 1 && is_differentiable(node.output_shapes[0].dtype()) && !(op.integer_outputs & 1))
    grads[0] = autograd::zeros_for(*node.output_shapes[0]);
  const OpRecord::Grad formula = create_graph && op.graph_grad_fn ? op.graph_grad_fn : op.grad_fn;
  const Device device = grads[0] ? grads[0].device() : Device{};
  const OnDeviceOf scope(device);
  return formula(GradContext(node, grads), grads[0]);
}

Tensor with_history(const Tensor& t, const Node::Edge& edge) {
  if (!thread_state.grad_mode || !edge) return t;
  Tensor value = alias(*t);
  if (edge.node) {
    attach(*value, edge.node, edge.output);
  } else {
    static const OpRecord& view = find_op("strided_view");
    const TensorImpl& leaf = *edge.leaf;
    record_node(view, Args(edge.leaf, IntList(leaf.sizes()), IntList(Shape(leaf.strides, leaf.ndim)), 0), &value, 1);
  }
  return value;
}

void record_packed(const OpRecord& op, const Args& args, Tensor* outs, uint32_t count) {
  const auto hooks = *autograd::current_saved_hooks();
  auto grad = std::make_unique<PackedGrad>(op);
  Ref<Node> node = new_node(op);
  for (uint32_t i = 0; i < args.size; ++i) {
    const Value& v = args[i];
    if (v.tag == Tag::Tensor) {
      const bool constant = i >= kMaxInputs || op.constant_inputs >> i & 1;
      grad->edges.push_back(constant ? Node::Edge() : edge_to(*v.tensor));
      if (i < 2 && grad->edges.back()) node->edges[i] = grad->edges.back();  // for saved_mask()
    } else if (v.tag == Tag::Tensors) {
      for (uint32_t k = 0; k < v.size; ++k)
        grad->edges.push_back(v.tensors[k] ? edge_to(*v.tensors[k].get()) : Node::Edge());
    }
  }
  const uint32_t mask = saved_mask(op, *node);
  node->edges[0] = node->edges[1] = {};
  give_order(*node);
  grad->order = node->order - 1;
  const std::vector<Tensor> tensors = tensors_among(args);
  size_t place = 0;
  for (uint32_t i = 0; i < args.size; ++i) {
    const uint32_t n = args[i].tag == Tag::Tensor ? 1 : args[i].tag == Tag::Tensors ? args[i].size : 0;
    for (uint32_t k = 0; k < n; ++k, ++place)
      if (mask >> i & 1 && tensors[place]) grad->inputs.emplace_back(place, PackedTensor(hooks, tensors[place]));
  }
  grad->args.save(args, 0);
  grad->mask = mask;
  grad->outputs = count;
  for (uint32_t o = 0; o < count; ++o) {
    if (op.saved_outputs >> o & 1) grad->results.emplace_back(o, PackedTensor(hooks, outs[o]));
    grad->output_shapes.push_back(shape_only(*outs[o]));
  }
  node->args.save(Args(TensorList(std::span<const Tensor>(tensors))), 0);
  node->list_edges = grad->edges;
  node->outputs = count;
  node->output_shapes = grad->output_shapes;
  node->more().custom = std::move(grad);
  for (uint32_t o = 0; o < count; ++o)
    if (is_differentiable(outs[o].dtype()) && !(op.integer_outputs >> o & 1)) attach(*outs[o], node, o);
}

}  // namespace strata
