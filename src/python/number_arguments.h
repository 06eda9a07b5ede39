// The tensor parameters of an op that accept a plain number from Python.
#pragma once
#include "record/op.h"

namespace strata::python {

// A mask of parameters. In C++ a pointwise op takes numbers anywhere; Python rejects them where PyTorch requires a
// tensor, since a number there is nearly always a mistake: maximum(x, 2), sum(1), linear(x, 1.0).
uint32_t number_parameters(const OpRecord& op);

}  // namespace strata::python
