// Tuning: while it is on, all kernels that accept a call are timed, and later calls with equal shapes use the fastest.
// The times of GPUs can be kept in a file (tuning_store.h), which is read when a process first uses the GPU.
#pragma once
#include "record/op.h"

namespace strata {

// Microseconds of each kernel in `ready` (indices into `kernels`; 0 for others), measured now if tuning is on and this
// call was not measured before; empty if there are no measurements.
std::vector<double> tuned_times(const Kernels& kernels, const Call& c, const std::vector<size_t>& ready);

STRATA_API void forget_tuning();  // discards all measurements, and those read from files
STRATA_API void save_tuning();    // adds what this process measured on GPUs to their files; throws Io

// Reads the file of a GPU, once per process. Cheap after that.
void read_tuning_once(Device device);

}  // namespace strata
