// The TF32 switch: whether kernels may round float32 factors to 10 bits of mantissa. Both are off unless set. Entries of
// kernel lists that use TF32 (Numerics::tf32) ask here while they plan, so that a change applies to the next call.
#pragma once
#include <string_view>

#include "base/api.h"

namespace strata {

STRATA_API bool allow_tf32_products();
STRATA_API void set_allow_tf32_products(bool allow);
STRATA_API bool allow_tf32_convolutions();
STRATA_API void set_allow_tf32_convolutions(bool allow);

// PyTorch's names for the first switch: "highest" is off, "high" and "medium" are on.
STRATA_API std::string_view float32_matmul_precision();
STRATA_API void set_float32_matmul_precision(std::string_view precision);

}  // namespace strata
