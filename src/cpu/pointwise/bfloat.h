// Pointwise loops over bfloat16, for functors that take less time than a conversion through memory: operands are converted in
// registers. The results have the bits of the loops over float.
#pragma once
#include <string_view>

#include "record/formula.h"

namespace strata::cpu {

// The loop of a functor; null if it has none. An operand k with mask[k] == 0 is a vector of equal floats (kVectorBytes), the
// others and the results are bfloat16. Members are floats.
SmallLoop bfloat_loop(std::string_view functor);

}  // namespace strata::cpu
