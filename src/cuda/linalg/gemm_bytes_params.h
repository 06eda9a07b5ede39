// Parameters of the Hopper products of 8-bit factors; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/linalg/gemm_hopper_params.h"

namespace strata::cuda::hopper {

struct ByteArgs {
  GemmArgs gemm;                    // k in pairs of elements; one matrix; without addend
  uint64_t scale_a, scale_b, bias;  // floats; bias may be 0
  int32_t by_rows;                  // a scale for each row of a and each column of b, not one each
  int32_t bias_type, d_type;        // dtypes
  int32_t pairs;                    // two 32-bit results next to each other are aligned to 8 bytes
};

}  // namespace strata::cuda::hopper
