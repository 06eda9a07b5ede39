// Parameters of the split product kernels; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/linalg/gemm_mma_params.h"

namespace strata::cuda {

constexpr int kSplitTile = kMmaSmall, kSplitFoldThreads = 256;

struct SplitParams {
  MmaParams product;
  uint64_t partial;      // float [part, batch, m, n]
  int32_t parts, depth;  // depth: of k in a part, a multiple of kMmaDepth
};

}  // namespace strata::cuda
