// Tuning: while it is on, the kernels that could run a call are timed, and later calls with equal shapes take the fastest.
#pragma once
#include "record/op.h"

namespace strata {

// Microseconds of each kernel in `ready` (indices into `kernels`; 0 for others), measured now where tuning is on and this call was
// not measured before; empty where there is nothing to go by.
std::vector<double> tuned_times(const Kernels& kernels, const Call& c, const std::vector<size_t>& ready);

STRATA_API void forget_tuning();  // what was measured so far

}  // namespace strata
