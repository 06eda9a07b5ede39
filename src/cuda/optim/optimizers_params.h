// Parameters of an optimizer kernel; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kRuleNumbers = 12;       // maximum number of members of a rule in device/functors/optimizers.h
constexpr int kTensorsPerLaunch = 64;  // launch parameters are limited to 4 KiB

struct OptimizerTensor {           // a parameter, its gradient and its state: dense, in one order and of one dtype
  uint64_t value, grad, state[3];  // a state may be 0
  int64_t count;
  int32_t type;
  int32_t vectors;  // all are aligned for vectors
};
// The list itself, not its address: a launch needs no copy before it, and a captured one keeps its list.
struct OptimizerParams {
  int32_t tensors, piece;                   // how many; elements per block
  double members[kRuleNumbers];             // of the rule in this step, the same for all; or
  uint64_t list;                            // their address on the device, tensor by tensor; 0: use `members`
  uint32_t first_block[kTensorsPerLaunch];  // of each tensor
  OptimizerTensor tensor[kTensorsPerLaunch];
};
static_assert(sizeof(OptimizerParams) <= 4096, "more than a launch can pass");

constexpr int kKeptNumbers = 3;  // per parameter, at most
// For the preceding kernel, which advances the numbers kept on the device and writes the members to the list.
struct OptimizerNumbersParams {
  double options[kRuleNumbers];  // of the rule: see device/functors/optimizer_numbers.h
  uint64_t lr;                   // device address of the learning rate; 0: it is in the options
  uint64_t list;
  int32_t lr_type, tensors;
  uint64_t kept[kTensorsPerLaunch][kKeptNumbers];  // 0: not kept
  int32_t kept_type[kTensorsPerLaunch][kKeptNumbers];
};
static_assert(sizeof(OptimizerNumbersParams) <= 4096, "more than a launch can pass");

}  // namespace strata::cuda
