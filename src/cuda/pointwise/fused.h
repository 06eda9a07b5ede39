// Groups of deferred pointwise ops (dispatch/deferred.h) on GPUs: one kernel for a group, compiled at run time from the formulas of
// the single ops.
#pragma once
#include <string>

#include "cuda/runtime/stream.h"
#include "record/fused.h"

namespace strata::cuda {

// How a group was computed, for explain().
struct FusedRun {
  std::string how;     // "one kernel", or "op by op: " and the reason
  std::string source;  // of the kernel; empty: op by op
};

// Computes a group in a stream. Results have the bits of single ops: no product is fused with a sum, and 16-bit results are
// rounded after each step. Sizes and numbers are parameters of the kernel, so other sizes and numbers need no other kernel.
// Without NVRTC, and where a kernel would not pay or cannot compute the group, the steps run one by one.
void run_fused(const FusedProgram& program, const Stream& stream, FusedRun* report = nullptr);

// For tests: whether groups get kernels; otherwise their ops run one by one. Returns the previous setting.
STRATA_API bool set_fused_kernels(bool on);

// The most numbers and parameters of formulas in a group: they are parameters of its kernel.
constexpr size_t kMostFusedNumbers = 128;

}  // namespace strata::cuda
