// Aligned copies of factors, for kernels that need rows aligned to 16 bytes.
#pragma once
#include "cuda/linalg/gemm_layout.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

// Whether all rows of all matrices of a batch are aligned to 16 bytes, for 16-bit elements.
bool rows_are_aligned(uint64_t address, int64_t ld, const int64_t (&batch_strides)[GemmLayout::kBatchDims]);

// Copies misaligned factors of 16-bit elements into the workspace and updates the layout. Without a stream (while
// planning) it only counts the workspace.
void realign_factors(GemmLayout& l, Workspace space, const Stream* stream);

}  // namespace strata::cuda
