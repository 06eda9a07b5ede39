// Optimizer steps on a device.
#pragma once
#include <array>
#include <span>

#include "cuda/kernels/optimizers_params.h"
#include "tensor/tensor.h"

namespace strata::cuda {

// A parameter and what goes along with it, all of one shape; `members` are the rule's numbers.
struct OptimizerUpdate {
  Tensor value, grad;
  std::array<Tensor, 3> state;  // may be empty
  std::array<double, kRuleNumbers> members;
};
// One step of the rule (the name of its functor without "Rule") over all parameters, in a launch for 64 of them,
// for each compute type and set of members. Nothing is copied and nothing waits.
void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates);

}  // namespace strata::cuda
