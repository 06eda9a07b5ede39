// Device side of fault reports. Any one of several reports is kept; the host raises it the next time it waits for the
// device.
#pragma once
#include "cuda/runtime/fault_params.h"

namespace strata::cuda {

// The sink is passed by value: with its address, each thread would copy the kernel's parameters to local memory first.
static __device__ __noinline__ void report(FaultSink sink, FaultCode code, int64_t value, int64_t limit) {
  volatile auto* to = reinterpret_cast<volatile FaultReport*>(sink.report);
  to->op = sink.op;
  to->value = value;
  to->limit = limit;
  to->code = static_cast<int32_t>(code);
}

// The index counted from the front; an index out of range is reported and becomes 0.
__device__ __forceinline__ int64_t checked_index(const FaultSink& sink, int64_t i, int64_t size) {
  if (i >= -size && i < size) return i < 0 ? i + size : i;
  report(sink, FaultCode::Index, i, size);
  return 0;
}

}  // namespace strata::cuda
