// Parameters of the kernels of cross entropy; shared with device code, so plain types only.
#pragma once
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

constexpr int kCrossEntropyStats = 3;  // per row: the largest logit, log(sum(exp(x - largest))), the weighted loss

struct CrossEntropyParams {
  uint64_t x, target, weight;  // [rows, classes], contiguous; [rows]; [classes] or 0
  uint64_t stats, total;       // of the compute type: [rows, 3]; the sum of the weights of the rows that count
  uint64_t loss;               // forward: one number or, with `each`, [rows]; of x's type
  uint64_t grad, out;          // backward: of the loss; of x, with its type
  int32_t type, target_type, weight_type, grad_type;
  int32_t threads;  // of a row: a power of two
  int32_t singly;   // backward: x and out are not aligned alike, so that no vector of both is
  int32_t each, mean;
  int64_t rows, classes, ignore;
  FaultSink faults;
};

}  // namespace strata::cuda
