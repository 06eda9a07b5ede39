// Products with weights of 8 or 4 bits on a device (weight_only.cu).
#pragma once
#include "record/kernel.h"
#include "record/weight_only.h"

namespace strata::cuda {

// By tensor cores: 16-bit activations, at most 64 rows.
const char* weights_reject_tensor_cores(const WeightProduct& w);
void run_weights_tensor_cores(const WeightProduct& w);
// A warp for each column: any dtype, size and alignment.
void run_weights_rows(const WeightProduct& w);

}  // namespace strata::cuda
