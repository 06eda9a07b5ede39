// Host side of AxesParams: fast divisors, and axes from a reduction's plan or a tensor's shape.
#pragma once
#include <bit>

#include "cuda/common/axes_params.h"
#include "record/reduction.h"

namespace strata::cuda {

inline FastDivisor divisor(uint32_t d) {  // for numbers below 2^31
  if (d == 0) return {};                  // an empty axis, over which no kernel runs
  const auto shift = static_cast<uint32_t>(std::bit_width(d - 1));
  const uint64_t multiplier = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1;
  return {d, static_cast<uint32_t>(multiplier), shift};
}

// `stride`: one per axis, in the order of a.
AxesParams axes_params(const Axes& a, const int64_t* stride, const char* op);

}  // namespace strata::cuda
