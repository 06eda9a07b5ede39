// What the host tells the kernels of nll_loss; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/kernels/fault_params.h"

namespace strata::cuda {

struct NllParams {
  uint64_t x;               // [n, classes, inner], contiguous; the gradient that is written, on the way back
  uint64_t target, weight;  // [n, inner]; [classes] or 0
  uint64_t losses, scales;  // forward: [n, inner] of the compute type
  uint64_t grad, total;     // backward; total is 0 unless the mean was taken
  int32_t x_type, target_type, weight_type, grad_type, total_type;
  int32_t each;  // grad has one element per place
  int64_t count, classes, inner, ignore;
  FaultSink faults;
};

}  // namespace strata::cuda
