// The places of the results of a reduction in the output.
#pragma once
#include "cuda/common/index.cuh"
#include "cuda/reduce/reduce_params.h"

namespace strata::cuda {

// The offset of a result in the output, in elements.
__device__ __forceinline__ int64_t place_of(const ReduceParams& p, int64_t result) {
  if (p.kept.dims == 1) return result * p.out_stride[0];
  int64_t at = 0;
  uint32_t rest = uint32_t(result);
  for (int d = 0; d < p.kept.dims; ++d) at += int64_t(split_off(rest, p.kept.size[d])) * p.out_stride[d];
  return at;
}

}  // namespace strata::cuda
