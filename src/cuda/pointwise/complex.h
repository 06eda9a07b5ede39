// The device kernels of pointwise ops with complex operands or results.
#pragma once
#include "record/formula.h"

namespace strata::cuda {

void run_complex(const Call& c, const Formula& f, DType common);

}  // namespace strata::cuda
