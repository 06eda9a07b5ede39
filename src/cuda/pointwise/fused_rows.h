// Groups with ops on rows on GPUs: one kernel, compiled at run time from the functors of the ops.
#pragma once
#include "cuda/pointwise/fused.h"

namespace strata::cuda {

// Computes a group in a stream and says how, or returns why there is no kernel for it.
std::string run_fused_rows(const FusedProgram& program, const Stream& stream, FusedRun& report);

}  // namespace strata::cuda
