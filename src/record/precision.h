// Settings that allow kernels with other numeric properties. Entries of kernel lists that need one ask here while they
// plan, so that a change applies to the next call.
#pragma once
#include <string_view>

#include "base/api.h"

namespace strata {

// TF32: whether kernels may round float32 factors to 10 bits of mantissa (Numerics::tf32). Off unless set.
STRATA_API bool allow_tf32_products();
STRATA_API void set_allow_tf32_products(bool allow);
STRATA_API bool allow_tf32_convolutions();
STRATA_API void set_allow_tf32_convolutions(bool allow);

// PyTorch's names for the first switch: "highest" is off, "high" and "medium" are on.
STRATA_API std::string_view float32_matmul_precision();
STRATA_API void set_float32_matmul_precision(std::string_view precision);

// Whether results on GPUs must have the same bits each time (Numerics::deterministic). On unless set. Without it, elements
// that are written or added to one place are taken in any order, which is faster.
STRATA_API bool is_deterministic();
STRATA_API void set_deterministic(bool on);
inline constexpr const char* kWhyNotInAnyOrder =
  "results must have the same bits each time (backends.cuda.deterministic)";

}  // namespace strata
