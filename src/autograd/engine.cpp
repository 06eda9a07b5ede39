// Backward: walks nodes from the youngest to the oldest. The sequence number is a topological order, so there is no
// counting pass and no recursion, and the order (hence every bit of the result) is the same each time.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "autograd/hooks.h"
#include "autograd/saved_hooks.h"
#include "autograd/watch.h"
#include "base/trace.h"

namespace strata {

constinit std::atomic<autograd::BackwardWatch> autograd::backward_watch = nullptr;
constinit std::atomic<autograd::KeptReferences> autograd::kept_references = nullptr;

namespace {

struct Pending {
  Node* node;                // kept alive by the consumers' edges and Backward::roots_
  Tensor grad;               // of output 0
  std::vector<Tensor> more;  // of the other outputs
  uint32_t own = 0;          // mask of outputs whose gradient tensor this pass created: it may be accumulated in place
  Tensor& of(uint32_t output) {
    if (output == 0) return grad;
    if (more.size() < output) more.resize(output);
    return more[output - 1];
  }
};

bool is_sparse(const Tensor& g) { return g->extra && autograd::sparse_parts(*g); }

Tensor add_grads(const Tensor& a, const Tensor& b) {
  if (is_sparse(a) || is_sparse(b)) [[unlikely]]
    return autograd::add_sparse(a, b);
  static const OpRecord& add = find_op("add");
  return call(add, Args(a, b, 1));
}

}  // namespace

// Reverses broadcasting and promotion, so that formulas need not handle them.
Tensor match_input(Tensor g, const TensorImpl& input) {
  if (is_sparse(g)) [[unlikely]] {  // its values have the dtype of the rows that were used
    STRATA_CHECK(g->same_shape(input) && g.dtype() == input.dtype, Runtime,
                 "a sparse gradient of shape {} and dtype {} does not fit a tensor of shape {} and dtype {}",
                 to_string(g.shape()), name_of(g.dtype()), to_string(input.sizes()), name_of(input.dtype));
    return g;
  }
  if (!g->same_shape(input)) {
    static const OpRecord &sum = find_op("sum", "dim"), &view = find_op("reshape");
    int64_t dims[kMaxDims];
    size_t n = 0;
    const int lead = g.dim() - input.ndim;
    for (int d = 0; d < g.dim(); ++d)
      if (d < lead || (input.shape[d - lead] != g->shape[d] && input.shape[d - lead] == 1)) dims[n++] = d;
    if (n) g = call(sum, Args(g, IntList(Shape(dims, n)), true, Value()));
    if (!g->same_shape(input)) g = call(view, Args(g, IntList(input.sizes())));
  }
  if (g.device() != input.device) [[unlikely]] {  // a CPU number that was combined with device tensors
    static const OpRecord& to = find_op("to", "device");
    Args args = to.defaults;
    args[0] = Value(g);
    args[1] = Value(input.device);
    g = call(to, args);
  }
  if (is_complex(g.dtype()) && is_floating(input.dtype)) {  // a real input of a complex result
    static const OpRecord& real = find_op("real");
    g = call(real, Args(g));
  }
  if (g.dtype() != input.dtype && is_differentiable(input.dtype)) {
    static const OpRecord& to = find_op("to", "dtype");
    Args args = to.defaults;
    args[0] = Value(g);
    args[1] = Value(input.dtype);
    g = call(to, args);
  }
  return g;
}

namespace {
// The gradient of a leaf whose shape changed after it was used. Dimensions of size 1 may have been added or removed.
[[gnu::cold]] Tensor reshaped_like(const Tensor& g, const TensorImpl& leaf) {
  static const OpRecord& view = find_op("reshape");
  const auto several = [](Shape shape) {
    std::vector<int64_t> sizes(shape.begin(), shape.end());
    std::erase(sizes, 1);
    return sizes;
  };
  STRATA_CHECK(several(g.shape()) == several(leaf.sizes()), Runtime,
               "the shape of a leaf changed after it was used: its gradient has shape {}, the leaf has shape {} now",
               to_string(g.shape()), to_string(leaf.sizes()));
  return call(view, Args(g, IntList(leaf.sizes())));
}

// Several threads may run backward on separate graphs that share leaves, such as the weights of one network.
std::mutex& lock_of(const TensorImpl& leaf) {
  static std::mutex locks[64];
  return locks[reinterpret_cast<uintptr_t>(&leaf) / sizeof(TensorImpl) % 64];
}

class Backward {
 public:
  Backward(bool retain_graph, bool create_graph, std::span<const Tensor> inputs, bool capture)
      : retain_graph_(retain_graph), create_graph_(create_graph), inputs_(inputs), capture_(capture) {
    captured_.resize(inputs.size());
    frontier_.reserve(16);
    for (const Tensor& t : inputs) targets_.push_back(edge_to(*t));
    for (const Node::Edge& edge : targets_) target_keys_.push_back(key(edge));
    std::sort(target_keys_.begin(), target_keys_.end());
    selective_ = capture || !inputs.empty();
  }

  // With inputs given, only nodes between the roots and these inputs run; hooks and saved tensors of other nodes are
  // not touched.
  void select(std::span<const Tensor> roots) {
    if (!selective_) return;
    std::vector<const Node*> reached, stack;
    const auto visit = [&](const Node::Edge& edge) {
      if (edge.node && wanted_.try_emplace(edge.node.get(), false).second) stack.push_back(edge.node.get());
    };
    for (const Tensor& root : roots)
      if (root) visit(edge_to(*root));
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      reached.push_back(node);
      for (const Node::Edge& edge : node->edges) visit(edge);
      for (const Node::Edge& edge : node->list_edges) visit(edge);
    }
    std::sort(reached.begin(), reached.end(), [](const Node* a, const Node* b) { return a->order < b->order; });
    for (const Node* node : reached) {  // oldest first, so the targets of all edges have been decided
      const auto leads = [&](const Node::Edge& edge) {
        return edge && (is_target(edge) || (edge.node && wanted_[edge.node.get()]));
      };
      wanted_[node] = std::any_of(std::begin(node->edges), std::end(node->edges), leads) ||
                      std::any_of(node->list_edges.begin(), node->list_edges.end(), leads);
    }
  }

  void seed(const Tensor& root, Tensor grad) {
    STRATA_CHECK(edge_to(root.checked()), Runtime,
                 "element 0 of tensors does not require grad and does not have a grad_fn");
    if (!grad) {
      STRATA_CHECK(
        root.numel() == 1, Runtime,
        "grad can be implicitly created only for scalar outputs; the shape is {}, pass a gradient of that shape",
        to_string(root.shape()));
      STRATA_CHECK(!is_complex(root.dtype()), Runtime,
                   "grad can be implicitly created only for real scalar outputs but got {}; pass a gradient, or "
                   "differentiate a real function of it",
                   name_of(root.dtype()));
      static const OpRecord& full = find_op("full");
      Args args = full.defaults;
      args[0] = Value(IntList(root.shape()));
      args[1] = Value(1.0);
      args[2] = Value(root.dtype());
      args[3] = Value(root.device());
      grad = call(full, args);
    }
    STRATA_CHECK(grad->same_shape(*root), Runtime, "Mismatch in shape: the gradient has shape {}, the tensor {}",
                 to_string(grad.shape()), to_string(root.shape()));
    Node::Edge edge = edge_to(*root);
    deliver(edge, match_input(std::move(grad), *root));
    if (!root_) root_ = std::move(edge.node);
    else roots_.push_back(std::move(edge.node));
  }

  void run() {
    while (!frontier_.empty()) {
      Pending p = std::move(frontier_.back());
      frontier_.pop_back();
      step(p);
    }
    run_leaf_hooks();
  }
  std::vector<Tensor> take() { return std::move(captured_); }

 private:
  static const void* key(const Node::Edge& edge) {
    return edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.get();
  }
  bool is_target(const Node::Edge& edge) const {
    return std::binary_search(target_keys_.begin(), target_keys_.end(), key(edge));
  }
  bool wanted(const Node* node) const { return !selective_ || wanted_.at(node); }

  // its position in the frontier, or where to insert it
  std::vector<Pending>::iterator place_of(const Node::Edge& edge) {
    return std::lower_bound(frontier_.begin(), frontier_.end(), edge.node->order,
                            [](const Pending& p, uint64_t o) { return p.node->order < o; });
  }

  static uint32_t own_bit(const Node::Edge& edge) { return edge.output < 32 ? 1u << edge.output : 0; }

  // `fresh`: no one else has this tensor.
  void deliver(const Node::Edge& edge, Tensor g, bool fresh = false) {
    if (selective_ && !is_target(edge) && !(edge.node && wanted(edge.node.get()))) return;
    if (!edge.node) return reach_leaf(edge.leaf, std::move(g));
    if (is_sparse(g)) [[unlikely]]
      g = autograd::sparse_to_dense(g);  // formulas take dense gradients
    auto at = place_of(edge);
    if (at == frontier_.end() || at->node != edge.node.get())
      at = frontier_.insert(at, Pending{edge.node.get(), {}, {}});
    Tensor& sum = at->of(edge.output);
    if (sum || fresh) at->own |= own_bit(edge);
    sum = sum ? add_grads(sum, g) : std::move(g);
  }

  // A leaf with hooks waits until the end: hooks see the sum of all contributions, once.
  void reach_leaf(const Tensor& leaf, Tensor g) {
    for (auto& [waiting, sum] : hooked_)
      if (waiting.get() == leaf.get()) {
        sum = add_grads(sum, g);
        return;
      }
    if (has_hooks(*leaf)) [[unlikely]]
      hooked_.emplace_back(leaf, std::move(g));
    else finish_leaf(leaf, std::move(g));
  }

  void run_leaf_hooks() {
    for (auto& [leaf, g] : hooked_) {
      finish_leaf(leaf, run_hooks(*leaf, std::move(g)));
      if (!capture_) run_after_hooks(leaf);
    }
  }

  void finish_leaf(const Tensor& leaf, Tensor g) {
    if (selective_) {
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (targets_[i].leaf.get() == leaf.get()) {
          if (!capture_) return accumulate(leaf, g);  // once, even if it is listed twice
          captured_[i] = captured_[i] ? add_grads(captured_[i], g) : g;
        }
      return;
    }
    accumulate(leaf, std::move(g));
  }

  void accumulate(const Tensor& leaf, Tensor g) const {
    if (!g->same_shape(*leaf)) g = reshaped_like(g, *leaf);
    g = match_input(std::move(g), *leaf);
    const std::lock_guard lock(lock_of(*leaf));
    const Tensor sum = leaf.grad();
    if (is_sparse(g) || (sum && is_sparse(sum))) [[unlikely]] {
      if (!sum) Tensor(leaf).set_grad(own_sparse(std::move(g)));
      else if (create_graph_ || !autograd::add_sparse_in_place(sum, g)) Tensor(leaf).set_grad(add_grads(sum, g));
    } else if (!sum) {
      const bool fits = has_layout_of(*g, *leaf);
      if (!fits || !take_over(*g)) g = copy_for(std::move(g), *leaf, fits);
      Tensor(leaf).set_grad(std::move(g));
    } else if (create_graph_) {
      Tensor(leaf).set_grad(add_grads(sum, g));
    } else {
      static const OpRecord& add = find_op("add");
      call_inplace(add, Args(sum, g, 1));
    }
  }
  // Whether no one else has it, so that it may be kept without a copy. Affects memory only; the values are the same. A view
  // of all elements of a tensor that only the view has is no longer a view.
  static bool take_over(TensorImpl& g) {
    const auto alone = [](const auto& object) { return object.refs.load(std::memory_order_relaxed) == 1; };
    if (!alone(g)) return false;
    if (g.base && alone(*g.base) && g.base->numel == g.numel) {
      g.base = {};
      g.rebases = 0;
    }
    return alone(*g.storage);
  }
  static Tensor own_sparse(Tensor g) {
    if (g->refs.load(std::memory_order_relaxed) != 1) return autograd::copy_sparse(g);
    static const OpRecord& clone = find_op("clone");
    autograd::SparseParts& parts = *autograd::sparse_parts(*g);
    for (Tensor* part : {&parts.indices, &parts.values})  // the indices may share memory with those of the call
      if (!take_over(**part)) *part = call(clone, Args(*part, Value()));
    return g;
  }
  // As in PyTorch, the gradient of a dense leaf has the leaf's strides (channels-last stays channels-last), that of any
  // other leaf is contiguous.
  static bool has_layout_of(const TensorImpl& g, const TensorImpl& leaf) {
    if (leaf.contiguous || !leaf.is_dense()) return g.contiguous;
    for (int d = 0; d < leaf.ndim; ++d)
      if (leaf.shape[d] != 1 && g.strides[d] != leaf.strides[d]) return false;
    return true;
  }
  static Tensor copy_for(Tensor g, const TensorImpl& leaf, bool fits) {
    static const OpRecord &clone = find_op("clone"), &contiguous = find_op("contiguous"),
                          &clone_strided = find_op("clone_strided");
    if (fits) return call(clone, Args(g, Value()));
    if (leaf.contiguous || !leaf.is_dense()) return call(contiguous, Args(g, Value("contiguous_format")));
    return call(clone_strided, Args(g, IntList(Shape(leaf.strides, leaf.ndim))));
  }

  void before(Node& node, Pending& p) {  // hooks, retained and captured gradients of this node's outputs
    if (node.rare) [[unlikely]]
      run_hooks(node, [&](uint32_t output) -> Tensor& { return p.of(output); });
    for (size_t i = 0; i < targets_.size(); ++i)
      if (capture_ && targets_[i].node.get() == &node) {
        const Tensor& g = p.of(targets_[i].output);
        if (g) captured_[i] = captured_[i] ? add_grads(captured_[i], g) : g;
      }
  }

  void step(Pending& p) {
    Node& node = *p.node;
    before(node, p);
    if (!wanted(&node)) return;  // its output is a requested input, and nothing beyond it is needed
    CustomGrad* const custom = node.custom();
    const bool holds = node.op->saved_inputs || node.op->saved_outputs || custom;
    Reading reading(node, holds);
    // A user's function raises when it accesses its saved tensors.
    if (!reading.is_fine() && !custom) autograd::fail_used_up(node.name());
    if (thread_state.observed) [[unlikely]]
      if (const auto watch = autograd::backward_watch.load(std::memory_order_relaxed)) watch(node);
    tracing::Span span(tracing::Layer::Autograd,
                       node.op->name.c_str());  // an event may outlive a custom node and its name
    if (span.active()) [[unlikely]] {
      span.fact(tracing::key::node, static_cast<int64_t>(node.order));
      if (custom) span.copied(tracing::key::name, node.name());
    }
    if (custom) custom_step(node, *custom, p);
    else formula_step(node, p);
    reading.end(!retain_graph_);
  }

  // Saved values of a node are freed after the pass that used them, unless another thread's pass is reading them.
  class Reading {
   public:
    Reading(Node& node, bool holds) : node_(holds && node.begin_reading() ? &node : nullptr), fine_(!holds || node_) {}
    ~Reading() { end(false); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    bool is_fine() const { return fine_; }
    void end(bool free_saved) {
      if (Node* node = std::exchange(node_, nullptr)) node->end_reading(free_saved);
    }

   private:
    Node* node_;
    bool fine_;
  };

  // The gradient of a view of a part is zero outside of that part. If the whole already has a gradient, the part is
  // added to it in place: all pieces of a split tensor, or steps of a sequence, together cost one pass instead of one
  // each.
  bool add_part(const Node& node, const Tensor& g) {
    const Node::Edge& edge = node.edges[0];
    if (create_graph_ || thread_state.anomaly_mode || selective_ || !edge) return false;
    if (edge.leaf) {
      if (edge.leaf->extra) return false;
      const std::lock_guard lock(lock_of(*edge.leaf));
      const Tensor whole = edge.leaf.grad();
      return whole && !is_sparse(whole) && add_in_place(node, whole, g);
    }
    const auto at = place_of(edge);
    if (at == frontier_.end() || at->node != edge.node.get() || !at->of(edge.output)) return false;
    return at->own & own_bit(edge) && add_in_place(node, at->of(edge.output), g);
  }
  static bool add_in_place(const Node& node, const Tensor& whole, const Tensor& g) {
    if (whole.dtype() != g.dtype()) return false;
    static const OpRecord& add = find_op("add");
    Args args = node.args.view();
    args[0] = Value(whole);
    call_inplace(add, Args(call(*node.op, args), g, 1));
    return true;
  }

  void formula_step(Node& node, Pending& p) {
    const OpRecord& op = *node.op;
    if (op.part && add_part(node, p.grad)) return;
    Tensor all[kMaxOutputs];
    const Tensor* grads = &p.grad;
    if (node.outputs > 1) {
      for (uint32_t o = 0; o < node.outputs; ++o) all[o] = std::move(p.of(o));
      if (!all[0] && is_differentiable(node.output_shapes[0].dtype()) && !(op.integer_outputs & 1))
        all[0] = autograd::zeros_for(*node.output_shapes[0]);
      grads = all;
    }
    Grads out;
    const OpRecord::Grad formula = create_graph_ && op.graph_grad_fn ? op.graph_grad_fn : op.grad_fn;
    const Device device = grads[0] ? grads[0].device() : Device{};
    const OnDeviceOf scope(device);
    if (thread_state.anomaly_mode) [[unlikely]] {
      Scoped quiet(thread_state.anomaly_mode, false);  // not the user's ops
      out = formula(GradContext(node, grads), grads[0]);
      check_anomaly(node, out);
    } else {
      out = formula(GradContext(node, grads), grads[0]);
    }
    // The gradient of a part is written into new zeros, unless the part is the whole.
    const bool fresh = op.part && out.t[0] && out.t[0]->storage.get() != grads[0]->storage.get();
    if (node.outputs == 1) p.grad = {};  // lets the next op reuse it
    const Args& saved = node.args.view();
    for (uint32_t i = 0; i < kMaxInputs; ++i) {
      if (!out.t[i] || !node.edges[i]) continue;
      if (i < saved.size && saved[i].tag == Tag::Tensor) out.t[i] = match_input(std::move(out.t[i]), *saved[i].tensor);
      deliver(node.edges[i], std::move(out.t[i]), fresh);
    }
    for (size_t k = 0; k < node.list_edges.size() && k < out.list.size(); ++k)
      if (out.list[k] && node.list_edges[k]) deliver(node.list_edges[k], std::move(out.list[k]));
  }

  void custom_step(Node& node, CustomGrad& custom, Pending& p) {
    std::vector<Tensor> grads(node.outputs);
    for (uint32_t o = 0; o < node.outputs; ++o) grads[o] = std::move(p.of(o));
    Grads result;
    std::vector<Tensor>& out = result.list = custom.apply(grads, create_graph_);
    if (thread_state.anomaly_mode) [[unlikely]]
      check_anomaly(node, result);
    const TensorList inputs = node.args.view()[0].tensor_list();
    for (size_t k = 0; k < node.list_edges.size() && k < out.size(); ++k) {
      if (!out[k] || !node.list_edges[k]) continue;
      if (inputs[k]) {  // else it has the shape of the output
        check_custom(node, k, out[k], *inputs[k]);
        out[k] = match_input(std::move(out[k]), *inputs[k]);
      }
      deliver(node.list_edges[k], std::move(out[k]));
    }
  }

  // The gradient may have the input's shape or one that it broadcasts to.
  static void check_custom(const Node& node, size_t k, const Tensor& g, const TensorImpl& input) {
    const int lead = g.dim() - input.ndim;
    bool fits = lead >= 0;
    for (int d = 0; fits && d < input.ndim; ++d) fits = input.shape[d] == g->shape[lead + d] || input.shape[d] == 1;
    STRATA_CHECK(fits, Runtime,
                 "Function {} returned an invalid gradient at index {} - got {} but expected shape compatible with {}",
                 node.name(), k, to_string(g.shape()), to_string(input.sizes()));
  }

  static void check_anomaly(const Node& node, const Grads& grads) {
    static const OpRecord &isnan = find_op("isnan"), &any = find_op("any");
    const auto bad = [&](const Tensor& given) {
      const Tensor& g = given && is_sparse(given) ? autograd::sparse_parts(*given)->values : given;
      return g && is_differentiable(g.dtype()) && !g.is_meta() && call(any, Args(call(isnan, Args(g)))).item<bool>();
    };
    bool found = std::any_of(grads.list.begin(), grads.list.end(), bad);
    for (const Tensor& g : grads.t) found |= bad(g);
    if (!found) return;
    std::string where =
      node.rare && !node.rare->where.empty() ? "\nThe forward call was made here:\n" + node.rare->where : "";
    fail(ErrorKind::Runtime, fmt::format("Function '{}' returned nan values in its backward.{}", node.name(), where));
  }

  bool retain_graph_, create_graph_;
  std::span<const Tensor> inputs_;
  bool capture_, selective_;
  std::unordered_map<const Node*, bool> wanted_;  // for nodes reachable from the roots, if selective
  std::vector<Node::Edge> targets_;
  std::vector<const void*> target_keys_;  // the same, sorted
  Ref<Node> root_;  // this one and the next keep the whole graph alive, even if a hook writes to a root in place
  std::vector<Ref<Node>> roots_;
  std::vector<Tensor> captured_;
  std::vector<std::pair<Tensor, Tensor>> hooked_;  // leaves with hooks, and their accumulated gradients
  std::vector<Pending> frontier_;                  // sorted by order; the youngest node is at the back
};

void seed_all(Backward& pass, std::span<const Tensor> roots, std::span<const Tensor> grads) {
  STRATA_CHECK(grads.empty() || grads.size() == roots.size(), Runtime, "got {} tensors and {} gradients", roots.size(),
               grads.size());
  pass.select(roots);
  for (size_t i = 0; i < roots.size(); ++i) pass.seed(roots[i], grads.empty() ? Tensor() : grads[i]);
}

}  // namespace

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  checked();
  autograd::backward(*this, gradient, retain_graph, create_graph);
}

namespace autograd {

void backward(std::span<const Tensor> roots, std::span<const Tensor> grads, bool retain_graph, bool create_graph,
              std::span<const Tensor> inputs) {
  for (const Tensor& t : inputs) STRATA_CHECK(t, Runtime, "backward: one of the inputs is None");
  Scoped mode(thread_state.grad_mode, create_graph);
  Scoped no_autocast(thread_state.autocast, uint8_t{0});  // gradients have the dtypes of the forward pass
  Backward pass(retain_graph || create_graph, create_graph, inputs, false);
  seed_all(pass, roots, grads);
  for (const Tensor& t : inputs) retain_grad(t);
  pass.run();
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  for (const Tensor& t : inputs)
    STRATA_CHECK(edge_to(t.checked()), Runtime, "One of the differentiated Tensors does not require grad");
  Scoped mode(thread_state.grad_mode, create_graph);
  Scoped no_autocast(thread_state.autocast, uint8_t{0});  // gradients have the dtypes of the forward pass
  Backward pass(retain_graph || create_graph, create_graph, inputs, true);
  seed_all(pass, outputs, grad_outputs);
  pass.run();
  std::vector<Tensor> result = pass.take();
  for (size_t i = 0; i < result.size(); ++i)
    STRATA_CHECK(result[i] || allow_unused, Runtime,
                 "One of the differentiated Tensors appears to not have been used in the graph (input {}). Set "
                 "allow_unused=True if this is "
                 "the desired behavior.",
                 i);
  return result;
}

bool is_leaf(const Tensor& t) { return !edge_to(t.checked()).node; }

Tensor detach(const Tensor& t) {
  Tensor out = alias(t.checked());
  out->inference = t->inference;
  return out;
}

Tensor zeros_for(const TensorImpl& t) {
  static const OpRecord& full = find_op("full");
  Args args = full.defaults;
  args[0] = Value(IntList(t.sizes()));
  args[1] = Value(0);
  args[2] = Value(t.dtype);
  args[3] = Value(t.device);
  return call(full, args);
}

}  // namespace autograd
}  // namespace strata
