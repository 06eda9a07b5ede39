// What back ends know of random distributions: which there are, and how fine their uniform numbers are.
#pragma once
#include "tensor/dtype.h"

namespace strata {

enum class Distribution : uint8_t { Uniform, Normal, LogNormal, Exponential, Cauchy, Geometric };

// The bits of a uniform number below 1 that is stored in this dtype: as many as it holds, so that rounding never reaches 1.
inline int uniform_bits(DType t) {
  switch (t) {
    case DType::BF16: return 8;
    case DType::F16: return 11;
    case DType::F8E4M3: return 4;
    case DType::F8E5M2: return 3;
    default: return 24;
  }
}

}  // namespace strata
