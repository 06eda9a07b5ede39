// Parameters of the kernels of nll_loss; shared with device code, so plain types only.
#pragma once
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

constexpr int kNllPart = 2048;  // rows per block

struct NllParams {
  uint64_t x;               // [n, classes, inner], contiguous; backward: the gradient to write
  uint64_t target, weight;  // [n, inner]; [classes] or 0
  uint64_t loss;            // forward: one number, or with `each` [n, inner]; of x's type
  uint64_t partial;         // forward, for more than one block: the sums of losses and of weights of each, in double
  uint64_t grad, total;     // backward: grad of the loss. total: the sum of the weights, 0 unless the mean was taken
  int32_t x_type, target_type, weight_type, grad_type, total_type;
  int32_t each;  // loss, or grad, has one element per row
  int32_t mean;
  int64_t count, classes, inner, ignore;
  FaultSink faults;
};

}  // namespace strata::cuda
