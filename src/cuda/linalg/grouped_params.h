// Parameters of the grouped product kernels; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/linalg/gemm_hopper_params.h"
#include "cuda/runtime/fault_params.h"
#include "device/product.h"

namespace strata::cuda {

constexpr int kGroupedLarge = 128, kGroupedSmall = 64;  // rows and columns of a tile: aligned copies, or any

// c = a b for each group. Group g has the rows of a and c, or the part of k, from offsets[g - 1] to offsets[g].
struct GroupedParams : Product {
  uint64_t a, b, c, offsets;  // offsets: int32
  int64_t a_g, b_g, c_g;      // strides between the matrices of groups; 0 for what is divided
  int32_t groups, wide_stores;
  FaultSink faults;
};

struct GroupedHopperArgs {
  hopper::GemmArgs gemm;
  FaultSink faults;
};

}  // namespace strata::cuda
