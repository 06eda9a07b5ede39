// Parameters of the mma.sync product kernels; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kMmaDepth = 32, kMmaStages = 4;   // of k in a tile, and tiles in flight
constexpr int kMmaLarge = 128, kMmaSmall = 64;  // rows and columns of c that a block computes

// Bytes of shared memory of a block, and its threads: two rows of warps, each of which computes tile / 2 x 32.
constexpr int mma_shared_bytes(int tile) { return kMmaStages * 2 * tile * kMmaDepth * 2; }
constexpr int mma_threads(int tile) { return 2 * tile; }

enum : int32_t { kMmaAddNothing, kMmaAddRow, kMmaAddMatrix };

// c = alpha * a b + beta * in, for a batch of two dimensions, outer first. Strides are in elements.
struct MmaParams {
  uint64_t a, b, c, in;
  int64_t lda, ldb, ldc, in_ld, a_b[2], b_b[2], c_b[2], in_b[2];
  int32_t m, n, k, inner, batches, addend;
  int32_t aligned;  // rows of c start at multiples of 16 bytes
  float alpha, beta;
};

}  // namespace strata::cuda
