// What the host tells an optimizer kernel; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct OptimizerTensor {           // a parameter, its gradient and its state: dense, in one order and of one dtype
  uint64_t value, grad, state[3];  // a state may be 0
  int64_t count;
  int32_t type, unused;
  double members[12];  // of the rule, for this parameter and step
};
struct OptimizerPiece {
  int64_t tensor, begin;
};
struct OptimizerParams {
  uint64_t tensors, pieces;  // lists on the device; a block for each piece
  int64_t piece;             // elements
};

}  // namespace strata::cuda
