// Reverse-mode differentiation: backward, grad, hooks, user-defined functions.
#pragma once
#include <initializer_list>

#include "autograd/node.h"

namespace strata::autograd {

// Accumulates the gradients of sum(roots * grads) into the leaves' .grad. An undefined grad means ones (roots of one
// element). With inputs, only into the .grad of these; non-leaf inputs retain their gradients from then on.
STRATA_API void backward(std::span<const Tensor> roots, std::span<const Tensor> grads = {}, bool retain_graph = false,
                         bool create_graph = false, std::span<const Tensor> inputs = {});
inline void backward(const Tensor& root, const Tensor& grad = {}, bool retain_graph = false,
                     bool create_graph = false) {
  backward({&root, 1}, {&grad, 1}, retain_graph, create_graph);
}
// The gradients with respect to inputs, which need not be leaves; undefined if there is none (an error unless
// allow_unused).
STRATA_API std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                    std::span<const Tensor> grad_outputs = {}, bool retain_graph = false,
                                    bool create_graph = false, bool allow_unused = false);

STRATA_API int64_t register_hook(const Tensor& t, Hook hook);  // returns an id for remove_hook
// Calls the hook with the leaf after backward() has accumulated into its .grad.
STRATA_API int64_t register_post_accumulate_grad_hook(const Tensor& t, LeafHook hook);
STRATA_API void remove_hook(const Tensor& t, int64_t id);
STRATA_API void retain_grad(const Tensor& t);
STRATA_API bool retains_grad(const Tensor& t);
STRATA_API bool is_leaf(const Tensor& t);
STRATA_API Tensor detach(const Tensor& t);         // a view without history
STRATA_API Tensor zeros_for(const TensorImpl& t);  // zeros of its shape and dtype

// Records outputs as computed from inputs by a user-defined function whose gradient is `custom`; undefined outputs
// carry none. `dirty` are the inputs that it wrote to in place, which must be among the outputs. An input that is
// returned unchanged is replaced by a view. Null if no output is differentiable.
STRATA_API Node* record_custom(std::unique_ptr<CustomGrad> custom, std::span<const Tensor> inputs,
                               std::span<Tensor> outputs, std::span<const Tensor> dirty = {});

// For composites that compute `out` without recording: its gradient is zero (random numbers), or unknown, and using it
// is an error.
STRATA_API Tensor without_slope(const char* op, std::initializer_list<Tensor> inputs, Tensor out);
STRATA_API Tensor without_derivative(const char* op, std::initializer_list<Tensor> inputs, Tensor out);

// The tensor without history, as a result of `op` whose tape an earlier backward pass has used: another one raises at `freed`.
STRATA_API Tensor used_up(const Tensor& t, const std::string& op, const std::string& freed);
[[noreturn]] void fail_used_up(const std::string& at);

// Anomaly mode: returns the user's current source line (set by the Python binding).
STRATA_API extern std::string (*current_line)();

struct NoGrad {
  NoGrad() : scope(thread_state.grad_mode, false) {}
  Scoped<bool> scope;
};
struct EnableGrad {
  EnableGrad() : scope(thread_state.grad_mode, true) {}
  Scoped<bool> scope;
};
struct InferenceMode {
  InferenceMode() : grad(thread_state.grad_mode, false), mode(thread_state.inference_mode, true) {}
  Scoped<bool> grad, mode;
};

}  // namespace strata::autograd
