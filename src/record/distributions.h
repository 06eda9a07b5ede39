// What back ends know of random distributions: which there are, and how fine their uniform numbers are.
#pragma once
#include "base/error.h"
#include "tensor/dtype.h"

namespace strata {

enum class Distribution : uint8_t { Uniform, Normal, LogNormal, Exponential, Cauchy, Geometric };

// The bits of a uniform number below 1 that is stored in this dtype: as many as it holds, so that rounding never reaches 1.
inline int uniform_bits(DType t) { return is_floating(t) && t != DType::F64 ? info_of(t).digits : 24; }

inline void check_rate(double rate) {
  STRATA_CHECK(rate >= 0, Runtime, "poisson: expects rates >= 0, but found {}", rate);
}

}  // namespace strata
