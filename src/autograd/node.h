// The tape: nodes and tensors. The gradient of an op is in the op's record.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "record/op.h"

namespace strata {

// A gradient hook: gets the gradient, may return a replacement (undefined: unchanged).
using Hook = std::function<Tensor(const Tensor&)>;
using LeafHook = std::function<void(const Tensor& leaf)>;

// The saved state and backward function of a user-defined function.
struct STRATA_API CustomGrad {
  virtual ~CustomGrad() = default;
  virtual const char* name() const = 0;
  virtual std::vector<Tensor> apply(const std::vector<Tensor>& grads, bool create_graph) = 0;
  virtual void release() {}  // the graph is freed: release saved values
};

struct STRATA_API Node : History {
  struct Edge {  // the target of a gradient: the output of a node, or a leaf; neither: not needed
    Ref<Node> node;
    Tensor leaf;
    uint32_t output = 0;
    explicit operator bool() const { return node || leaf; }
  };
  struct Rare {  // rarely used data
    struct OutputHook {
      int64_t id;
      uint32_t output;
      Hook hook;
    };
    std::vector<OutputHook> hooks;  // this list and the next: see autograd/hooks.h
    std::vector<std::pair<uint32_t, std::shared_ptr<TensorImpl*>>>
      retained;  // outputs that retain their gradient; null once they are destroyed
    std::unique_ptr<CustomGrad> custom;
    std::string where;  // anomaly mode: the user's line that created this node
  };

  uint64_t order = 0;  // creation order is a topological order: inputs are always older
  const OpRecord* op = nullptr;
  static constexpr uint32_t kFreed = 1u << 31;
  std::atomic<uint32_t> readers{
    0};  // number of backward passes that read the saved values; kFreed: freed, or to be freed by the last one
  uint32_t outputs = 1;
  SavedArgs args;
  uint32_t version = 0;    // of the saved outputs when they were saved
  Tensor results[2];       // saved outputs, aliases without history (otherwise output and node would own each other)
  Edge edges[kMaxInputs];  // by parameter index
  std::vector<Edge> list_edges;       // of the Tensor[] parameter
  std::vector<Tensor> more_results;   // saved outputs beyond two
  std::vector<Tensor> output_shapes;  // ops with several outputs: to create zeros for those without a gradient
  Lazy<Rare> rare;

  const char* name() const { return custom() ? custom()->name() : op->name.c_str(); }
  Rare& more() { return rare.make(); }
  CustomGrad* custom() const { return rare ? rare->custom.get() : nullptr; }
  bool begin_reading();               // false: the saved values have been freed
  void end_reading(bool free_saved);  // the last reader frees
};
inline Node* node_of(const TensorImpl& t) { return static_cast<Node*>(t.history.get()); }

// The arguments of a gradient function.
class STRATA_API GradContext {
 public:
  GradContext(const Node& n, const Tensor* grads) : node_(n), grads_(grads) {}
  const Value& arg(uint32_t i) const { return node_.args.view()[i]; }  // numbers, lists, strings as given
  Tensor input(uint32_t i) const;                    // a saved tensor; throws if it was written to since
  Operand operand(uint32_t i) const;                 // the same for a tensor or a plain number
  std::vector<Tensor> input_list(uint32_t i) const;  // a saved Tensor[]
  Shape shape(uint32_t i) const { return node_.args.view()[i].tensor->sizes(); }  // of a tensor argument, saved or not
  const TensorImpl& meta(uint32_t i) const { return *node_.args.view()[i].tensor; }  // its dtype, shape and strides
  bool has(uint32_t i) const { return node_.args.view()[i].tag == Tag::Tensor; }
  Tensor result(uint32_t i = 0) const;  // a saved output
  bool needs(uint32_t i) const {
    return static_cast<bool>(node_.edges[i]);
  }  // whether the gradient of input i is needed
  bool needs_list(uint32_t k) const { return static_cast<bool>(node_.list_edges[k]); }
  const Tensor& grad(uint32_t output) const { return grads_[output]; }  // may be undefined
  Tensor grad_or_zeros(uint32_t output) const;
  const Node& node() const { return node_; }

 private:
  const Node& node_;
  const Tensor* grads_;
};

// For ops whose derivative is unknown: their results require a gradient, and computing it is an error. Without this the
// gradient would silently be zero.
STRATA_API Grads no_derivative(const GradContext& c, const Tensor&);

// Called by the pipeline after an op ran on inputs that require gradients.
STRATA_API void record_node(const OpRecord& op, const Args& args, Tensor* outs, uint32_t count);
// The node (or leaf) that receives a gradient for t. A view whose base was written to gets a new history here, once for
// each write: every use after the write shares it.
STRATA_API Node::Edge edge_to(TensorImpl& t);
STRATA_API bool wants_grad(const Args& args);
bool among(const Tensor& t, std::span<const Tensor> list);  // whether the list has this very tensor
// Throws if autograd cannot record a write to t by `op`: a leaf that requires a gradient, a view of one, a view that
// was not recorded. `recorded`: the write involves tensors that require gradients.
STRATA_API void check_inplace(const TensorImpl& t, bool recorded, const char* op);
// Call it after an in-place write to t that was recorded as `value` (an alias of t that carries the new history).
STRATA_API void rebase(TensorImpl& t, Tensor value);

}  // namespace strata
