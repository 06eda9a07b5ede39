// The tape. It knows nodes and tensors; what an op's gradient is stands in the op's record.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "record/op.h"

namespace strata {

// A gradient hook: sees the gradient, may return another one (undefined: unchanged).
using Hook = std::function<Tensor(const Tensor&)>;
using LeafHook = std::function<void(const Tensor& leaf)>;

// What a user-defined function keeps for its backward.
struct STRATA_API CustomGrad {
  virtual ~CustomGrad() = default;
  virtual const char* name() const = 0;
  virtual std::vector<Tensor> apply(const std::vector<Tensor>& grads, bool create_graph) = 0;
  virtual void release() {}  // the graph is freed: drop what was saved
};

struct STRATA_API Node : History {
  struct Edge {  // where a gradient goes: to the output of a node, or to a leaf; neither: not wanted
    Ref<Node> node;
    Tensor leaf;
    uint8_t output = 0;
    explicit operator bool() const { return node || leaf; }
  };
  struct Rare {  // what few nodes have
    struct OutputHook {
      int64_t id;
      uint8_t output;
      Hook hook;
    };
    std::vector<OutputHook> hooks;
    std::vector<std::pair<uint8_t, std::shared_ptr<TensorImpl*>>>
      retained;  // outputs that want their gradient; null once they are gone
    std::unique_ptr<CustomGrad> custom;
    std::string where;  // anomaly mode: the user's line that made this node
  };

  uint64_t order = 0;  // creation order is a topological order: inputs are always older
  const OpRecord* op = nullptr;
  bool used = false;  // a finished backward has freed what was saved
  uint8_t outputs = 1;
  SavedArgs args;
  uint32_t version = 0;          // of the saved outputs when they were saved
  Tensor results[2];             // saved outputs, aliases without history (else output and node would own each other)
  Edge edges[kMaxInputs];        // by parameter index
  std::vector<Edge> list_edges;  // of the Tensor[] parameter
  std::vector<Tensor> more_results;   // saved outputs beyond two
  std::vector<Tensor> output_shapes;  // ops with several outputs: to make zeros for those without a gradient
  std::unique_ptr<Rare> rare;

  const char* name() const { return rare && rare->custom ? rare->custom->name() : op->name.c_str(); }
  Rare& more() {
    if (!rare) rare = std::make_unique<Rare>();
    return *rare;
  }
};
inline Node* node_of(const TensorImpl& t) { return static_cast<Node*>(t.history.get()); }

// What a gradient function sees.
class STRATA_API GradContext {
 public:
  GradContext(const Node& n, const Tensor* grads) : node_(n), grads_(grads) {}
  const Value& arg(uint32_t i) const { return node_.args.view()[i]; }  // numbers, lists, strings as they were given
  Tensor input(uint32_t i) const;                    // a saved tensor; checks that nobody wrote to it since
  Operand operand(uint32_t i) const;                 // the same where a plain number may stand
  std::vector<Tensor> input_list(uint32_t i) const;  // a saved Tensor[]
  Shape shape(uint32_t i) const { return node_.args.view()[i].tensor->sizes(); }  // of a tensor argument, saved or not
  const TensorImpl& meta(uint32_t i) const { return *node_.args.view()[i].tensor; }  // its dtype, shape and strides
  bool has(uint32_t i) const { return node_.args.view()[i].tag == Tag::Tensor; }
  Tensor result(uint32_t i = 0) const;  // a saved output
  bool needs(uint32_t i) const {
    return static_cast<bool>(node_.edges[i]);
  }  // does anybody want the gradient of input i?
  bool needs_list(uint32_t k) const { return static_cast<bool>(node_.list_edges[k]); }
  const Tensor& grad(uint32_t output) const { return grads_[output]; }  // may be undefined
  Tensor grad_or_zeros(uint32_t output) const;
  const Node& node() const { return node_; }

 private:
  const Node& node_;
  const Tensor* grads_;
};

// Called by the pipeline after an op ran on inputs that require gradients.
STRATA_API void record_node(const OpRecord& op, const Args& args, Tensor* outs, uint32_t count);
// The node (or leaf) a gradient for t goes to. Views whose base was written to get their history renewed here.
STRATA_API Node::Edge edge_to(TensorImpl& t);
STRATA_API bool wants_grad(const Args& args);
// After an in-place write to t that was recorded as `value` (an alias of t that carries the new history).
STRATA_API void rebase(TensorImpl& t, Tensor value);

}  // namespace strata
