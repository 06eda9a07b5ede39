// A node with hooks is a CustomGrad around what it was before: a user-defined gradient, or a plain node with a formula.
#include "autograd/node_hooks.h"

#include <algorithm>

#include "autograd/saved_hooks.h"

namespace strata::autograd {
namespace {

class HookedNode : public CustomGrad {
 public:
  explicit HookedNode(Node& node) {
    if (node.custom()) custom_ = std::move(node.more().custom);
    else take_formula(node);
  }
  const char* name() const override { return custom_ ? custom_->name() : op_->name.c_str(); }
  void release() override {
    if (custom_) return custom_->release();
    if (op_->saved_inputs || op_->saved_outputs) plain_ = {};  // else it may run again
  }

  std::vector<Tensor> apply(const std::vector<Tensor>& given, bool create_graph) override {
    GradTuple grads = given;
    for (const auto& [id, hook] : std::vector(before_)) replace(grads, hook(grads));
    GradTuple found = custom_ ? custom_->apply(grads, create_graph) : run_formula(grads, create_graph);
    for (const auto& [id, hook] : std::vector(after_)) replace(found, hook(found, grads));
    return found;
  }

  std::vector<std::pair<int64_t, NodePreHook>> before_;
  std::vector<std::pair<int64_t, NodeHook>> after_;
  std::shared_ptr<void> metadata;

 private:
  void replace(GradTuple& grads, std::optional<GradTuple> other) const {
    if (!other) return;
    STRATA_CHECK(other->size() == grads.size(), Runtime,
                 "a hook of {} must return {} gradients, one for each that it was given; it returned {}", name(),
                 grads.size(), other->size());
    grads = std::move(*other);
  }

  // Moves edges and saved values into a plain node; the node itself keeps shapes, as user-defined functions do.
  void take_formula(Node& node) {
    const OpRecord& op = *node.op;
    const Args args = node.args.view();
    op_ = &op;
    const bool freed = node.readers.load(std::memory_order_acquire) & Node::kFreed;
    const uint32_t mask = freed ? 0 : saved_mask(op, node);
    for (uint32_t i = 0; i < args.size; ++i)
      STRATA_CHECK(
        !(mask >> i & 1) || args[i].tag != Tag::Tensor || args[i].tensor->version() == node.args.version_of(i), Runtime,
        "{}: a tensor that it saved has been modified by an inplace operation", op.name);
    plain_ = new_node(op);
    plain_->order = node.order - 1;
    plain_->outputs = node.outputs;
    plain_->args.save(args, mask, true);
    plain_->version = node.version;
    std::move(std::begin(node.results), std::end(node.results), std::begin(plain_->results));
    plain_->more_results = std::move(node.more_results);
    plain_->output_shapes = node.output_shapes;
    std::vector<Tensor> shapes;
    std::vector<Node::Edge> edges;
    for (uint32_t i = 0; i < kMaxInputs; ++i) {
      const bool is_tensor = i < args.size && args[i].tag == Tag::Tensor;
      if (!is_tensor && !node.edges[i]) continue;
      params_.push_back(i);
      shapes.push_back(is_tensor ? shape_only(*args[i].tensor) : Tensor());
      edges.push_back(node.edges[i]);
      plain_->edges[i] = std::move(node.edges[i]);
    }
    for (Node::Edge& edge : node.list_edges) {
      shapes.emplace_back();
      edges.push_back(edge);
    }
    plain_->list_edges = std::move(node.list_edges);
    node.args.clear();
    node.args.save(Args(TensorList(std::span<const Tensor>(shapes))), 0);
    node.list_edges = std::move(edges);
    if (freed) plain_ = {};
  }

  std::vector<Tensor> run_formula(const GradTuple& given, bool create_graph) const {
    // A graph of second derivatives may have used and freed the plain node.
    if (!plain_ || !plain_->begin_reading()) autograd::fail_used_up(name());
    const Ref<Node> plain = plain_;
    struct Reading {
      Node& node;
      ~Reading() { node.end_reading(false); }
    } const reading{*plain};
    Grads found = apply_formula(*plain, given, create_graph);
    std::vector<Tensor> result;
    const Args& args = plain_->args.view();
    for (uint32_t i : params_) {
      Tensor g = plain_->edges[i] ? std::move(found.t[i]) : Tensor();
      const bool known = g && i < args.size && args[i].tag == Tag::Tensor;
      result.push_back(known ? match_input(std::move(g), *args[i].tensor) : std::move(g));
    }
    found.list.resize(plain_->list_edges.size());
    std::move(found.list.begin(), found.list.end(), std::back_inserter(result));
    return result;
  }

  std::unique_ptr<CustomGrad> custom_;
  Ref<Node> plain_;
  std::vector<uint32_t> params_;  // of the edges that are not in the list
  const OpRecord* op_ = nullptr;
};

HookedNode& hooked(Node& node) {
  if (auto* found = dynamic_cast<HookedNode*>(node.custom())) return *found;
  auto made = std::make_unique<HookedNode>(node);
  HookedNode& result = *made;
  node.more().custom = std::move(made);
  return result;
}
std::atomic<int64_t> next_node_hook{1};
}  // namespace

int64_t register_node_hook(Node& node, NodeHook hook) {
  return hooked(node).after_.emplace_back(next_node_hook++, std::move(hook)).first;
}
int64_t register_node_prehook(Node& node, NodePreHook hook) {
  return hooked(node).before_.emplace_back(next_node_hook++, std::move(hook)).first;
}
void remove_node_hook(Node& node, int64_t id) {
  auto* found = dynamic_cast<HookedNode*>(node.custom());
  if (!found) return;
  std::erase_if(found->before_, [&](const auto& entry) { return entry.first == id; });
  std::erase_if(found->after_, [&](const auto& entry) { return entry.first == id; });
}
std::shared_ptr<void>& node_metadata(Node& node) { return hooked(node).metadata; }

}  // namespace strata::autograd
