// What the host tells an optimizer kernel; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kRuleNumbers = 12;       // that a rule of device/functors/optimizers.h holds, at most
constexpr int kTensorsPerLaunch = 64;  // the parameters of a launch have 4 KiB on every device

struct OptimizerTensor {           // a parameter, its gradient and its state: dense, in one order and of one dtype
  uint64_t value, grad, state[3];  // a state may be 0
  int64_t count;
  int32_t type;
  int32_t vectors;  // all of it is aligned for them
};
// The list itself, not its address: a launch needs no copy before it, and a captured one keeps its list.
struct OptimizerParams {
  int32_t tensors, piece;                   // how many; elements of a block
  double members[kRuleNumbers];             // of the rule in this step, the same for all
  uint32_t first_block[kTensorsPerLaunch];  // of each tensor
  OptimizerTensor tensor[kTensorsPerLaunch];
};
static_assert(sizeof(OptimizerParams) <= 4096, "more than a launch can pass");

}  // namespace strata::cuda
