// Error reports from kernels. A launch does not wait for its kernel, so a report is raised the next time the host
// waits: item(), a copy to the host, synchronize(). The device stays usable.
#pragma once
#include "cuda/runtime/fault_params.h"
#include "cuda/runtime/runtime.h"

namespace strata::cuda {

FaultSink fault_sink(Gpu& gpu);     // for a kernel of the op that runs on this thread
void raise_faults(const Gpu& gpu);  // after waiting: throws the report, once

}  // namespace strata::cuda
