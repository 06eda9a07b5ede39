// Which tensor parameters of an op take a plain number from Python.
#pragma once
#include "record/op.h"

namespace strata::python {

// A mask of parameters. In C++ a pointwise op takes numbers anywhere; Python refuses them where PyTorch asks for a tensor, since
// a number there is nearly always a mistake: maximum(x, 2), sum(1), linear(x, 1.0).
uint32_t number_parameters(const OpRecord& op);

}  // namespace strata::python
