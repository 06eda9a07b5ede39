// Optimizer steps on a device.
#pragma once
#include <array>
#include <span>

#include "cuda/optim/optimizers_params.h"
#include "record/kernel.h"

namespace strata::cuda {

// A parameter with its gradient and state, all of one shape, and the numbers of the rule for it: its members. They are
// not known yet if `kept` or the learning rate are on the device.
struct OptimizerUpdate {
  Tensor value, grad;
  std::array<Tensor, 3> state;  // may be empty
  std::array<double, kRuleNumbers> members{};
  std::array<Tensor, kKeptNumbers> kept{};
  bool on_device = false;  // the members are computed there
};
// One step of a rule (the name of its functor without "Rule") over all parameters: a launch for 64 of them, for each
// compute type and set of members, preceded by one that computes members on the device if needed. Nothing is copied and
// nothing waits. `options` are those of device/functors/optimizer_numbers.h; `lr`, if defined, replaces the first of
// them.
void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates, std::span<const double> options,
                    const Tensor& lr, Workspace& workspace);

}  // namespace strata::cuda
