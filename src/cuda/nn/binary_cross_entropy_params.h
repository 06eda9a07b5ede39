// Parameters of the kernel of the binary cross entropy; shared with device code, so plain types only.
#pragma once
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

struct BinaryCrossEntropyParams {
  uint64_t x, target, out;
  int32_t type;
  int64_t count;
  FaultSink faults;
};

}  // namespace strata::cuda
