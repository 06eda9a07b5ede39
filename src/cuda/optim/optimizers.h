// Optimizer steps on a device.
#pragma once
#include <array>
#include <span>

#include "cuda/optim/optimizers_params.h"
#include "tensor/tensor.h"

namespace strata::cuda {

// A parameter and what goes along with it, all of one shape, and the numbers of the rule for it: its members; or, where `kept` lie on
// the device or the learning rate does, nothing yet.
struct OptimizerUpdate {
  Tensor value, grad;
  std::array<Tensor, 3> state;  // may be empty
  std::array<double, kRuleNumbers> members{};
  std::array<Tensor, kKeptNumbers> kept{};
  bool on_device = false;  // what the members are is computed there
};
// One step of a rule (the name of its functor without "Rule") over all parameters: a launch for 64 of them, for each compute type and set
// of members, and before it one that computes members on the device where asked to. Nothing is copied and nothing waits. `options` are
// those of device/functors/optimizer_numbers.h; `lr` stands for the first of them where it is defined.
void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates, std::span<const double> options,
                    const Tensor& lr);

}  // namespace strata::cuda
