// User-defined functions in C++, and checkpointing.
//
//   struct Cube : Function<Cube> {
//     static Tensor forward(FunctionContext& ctx, const Tensor& x) {
//       ctx.save_for_backward({x});
//       return x * x * x;
//     }
//     static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
//       return {grads[0] * 3 * ctx.get_saved_variables()[0] * ctx.get_saved_variables()[0]};
//     }
//   };
//   Tensor y = Cube::apply(x);
#pragma once
#include <any>
#include <map>
#include <mutex>
#include <typeinfo>
#include <utility>

#include "autograd/autograd.h"

namespace strata::autograd {

// Passes data from forward to backward.
class STRATA_API FunctionContext {
 public:
  // Keeps inputs, outputs or other tensors; writing to one of them in place before backward is an error.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  std::vector<Tensor> get_saved_variables() const;
  std::map<std::string, std::any> saved_data;  // other data; kept when the graph is freed

  bool needs_input_grad(size_t argument) const { return argument < needs_.size() && needs_[argument]; }
  void mark_dirty(std::vector<Tensor> inputs) { dirty_ = std::move(inputs); }  // inputs that forward wrote to in place
  void mark_non_differentiable(std::vector<Tensor> outputs) { constant_ = std::move(outputs); }
  void set_materialize_grads(bool on) { materialize_ = on; }  // false: undefined gradients stay undefined

 private:
  friend class FunctionNode;
  struct Saved {
    Tensor tensor;
    uint32_t version = 0;
    int output = -1;  // an output is kept as an alias; otherwise it and its node would own each other
  };
  std::vector<Tensor> to_save_, dirty_, constant_;
  mutable std::mutex mutex_;  // for the next two: a thread may free the graph while another runs backward
  std::vector<Saved> saved_;
  bool freed_ = false;
  std::vector<bool> needs_;  // by argument of forward
  std::string name_;
  Node* node_ = nullptr;  // owns this context
  bool materialize_ = true;
};

// The untyped part of Function. Arguments are the tensors of forward's parameters in order, lists flattened; a
// parameter of another type counts as one argument without a gradient.
class STRATA_API FunctionNode : public CustomGrad {
 public:
  using Backward = std::vector<Tensor> (*)(FunctionContext&, const std::vector<Tensor>& grads);
  FunctionNode(const std::type_info& type, Backward backward);

  void add_argument(const Tensor& t);
  void add_argument(const std::vector<Tensor>& list) {
    for (const Tensor& t : list) add_argument(t);
  }
  void add_argument(const std::optional<Tensor>& t) { add_argument(t ? *t : Tensor()); }
  template <class T> void add_argument(const T&) { add_argument(Tensor()); }

  FunctionContext& context() { return context_; }
  // After forward: records the outputs, replacing those that must be different objects than the inputs.
  static void finish(std::unique_ptr<FunctionNode> self, std::span<Tensor> outputs);

  const char* name() const override { return context_.name_.c_str(); }
  std::vector<Tensor> apply(const std::vector<Tensor>& grads, bool create_graph) override;
  void release() override;

 private:
  FunctionContext context_;
  Backward backward_;
  std::vector<Tensor> inputs_;         // until finish()
  std::vector<Tensor> output_shapes_;  // to create zeros for outputs without a gradient
};

// Derive from it with static functions forward(FunctionContext&, args...) -> Tensor or std::vector<Tensor>, and
// backward(FunctionContext&, const std::vector<Tensor>& grads) -> one gradient per argument of forward.
template <class Derived> class Function {
 public:
  template <class... A> static auto apply(const A&... args) {
    auto node = std::make_unique<FunctionNode>(
      typeid(Derived), [](FunctionContext& ctx, const std::vector<Tensor>& grads) -> std::vector<Tensor> {
        return Derived::backward(ctx, grads);
      });
    (node->add_argument(args), ...);
    auto out = [&] {
      NoGrad off;
      return Derived::forward(node->context(), args...);
    }();
    if constexpr (std::is_same_v<decltype(out), Tensor>) FunctionNode::finish(std::move(node), {&out, 1});
    else FunctionNode::finish(std::move(node), out);
    return out;
  }
};

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Runs fn(inputs), discards its intermediate results and recomputes them in backward. Leaves that fn captures get their
// gradients too, if at least one of the inputs requires one. With preserve_rng_state, random ops draw the same numbers
// again.
STRATA_API std::vector<Tensor> checkpoint(TensorFunction fn, const std::vector<Tensor>& inputs,
                                          bool preserve_rng_state = true);

}  // namespace strata::autograd

namespace strata {
using autograd::Function, autograd::FunctionContext;
}  // namespace strata
