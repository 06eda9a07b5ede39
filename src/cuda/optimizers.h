// Optimizer steps on a device.
#pragma once
#include <array>
#include <span>

#include "tensor/tensor.h"

namespace strata::cuda {

// A parameter and what goes along with it, all of one shape; `members` are the rule's numbers.
struct OptimizerUpdate {
  Tensor value, grad;
  std::array<Tensor, 3> state;  // may be empty
  std::array<double, 12> members;
};
// One step of the rule (the name of its functor without "Rule") over all parameters, in a launch for each compute type.
void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates);

}  // namespace strata::cuda
