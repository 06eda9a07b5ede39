// Parameters of Hopper products with results in float: TF32, and parts of sums. Compiled by both compilers, so plain types
// only.
#pragma once
#include "cuda/linalg/gemm_hopper_params.h"

namespace strata::cuda::hopper {

// 128 x 128 without a cluster: two blocks below each other would waste one where m is at most 128.
inline constexpr TileShape kSquare = {128, 128, 128, 6, 1, 1, true};

constexpr int kFoldThreads = 256;

// gemm.d: float results, or float parts [part, m, n] with gemm.batches of them.
struct FloatArgs {
  GemmArgs gemm;
  int32_t pairs;  // two results next to each other are aligned to 8 bytes
};

// d = alpha * the sum of the parts + beta * in, rounded to `type`.
struct FoldArgs {
  GemmArgs gemm;  // of the product: one matrix
  uint64_t partial;
  int32_t parts, type;
  int32_t quads;  // four elements in a row of a part, of d and of what is added are aligned to their size
};

}  // namespace strata::cuda::hopper
