// Hooks on a node: before it runs, with the gradients of its outputs, and after it, with those of its inputs too.
#pragma once
#include <memory>
#include <optional>

#include "autograd/autograd.h"

namespace strata::autograd {

using GradTuple = std::vector<Tensor>;  // undefined where there is no gradient
// A returned tuple replaces the gradients of the outputs, or of the inputs.
using NodePreHook = std::function<std::optional<GradTuple>(const GradTuple& grad_outputs)>;
using NodeHook = std::function<std::optional<GradTuple>(const GradTuple& grad_inputs, const GradTuple& grad_outputs)>;

// Return an id for remove_node_hook(). Not while another thread runs backward through the node.
STRATA_API int64_t register_node_hook(Node& node, NodeHook hook);
STRATA_API int64_t register_node_prehook(Node& node, NodePreHook hook);
STRATA_API void remove_node_hook(Node& node, int64_t id);
// Data of the user that lives as long as the node; empty at first.
STRATA_API std::shared_ptr<void>& node_metadata(Node& node);

}  // namespace strata::autograd
