// Kernels over many tensors: the list is a launch parameter, and each tensor has its own range of consecutive blocks.
#pragma once
#include <stdint.h>

namespace strata::cuda {

// The last tensor of the list that begins at or before this block.
template <class Params> __device__ __forceinline__ int tensor_of_block(const Params& p) {
  int low = 0, high = p.tensors - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (p.first_block[middle] <= blockIdx.x) low = middle;
    else high = middle - 1;
  }
  return low;
}

}  // namespace strata::cuda
