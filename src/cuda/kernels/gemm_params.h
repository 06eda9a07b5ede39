// What the host tells a matrix-product kernel; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kGemmTile = 64, kGemmDepth = 16;  // rows and columns of c that a block makes, and of k it takes at a time

// c = alpha * a b + beta * in, for a batch of matrices. `in` broadcasts by strides of 0: a bias has one row.
struct GemmParams {
  static constexpr int kMaxBatch = 8;
  uint64_t a, b, c, in;  // in may be 0: nothing is added
  int32_t a_type, b_type, c_type, in_type;
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, c_m, c_n, in_m, in_n;  // strides in elements
  int64_t batches;
  int32_t batch_dims;
  int64_t batch[kMaxBatch], a_b[kMaxBatch], b_b[kMaxBatch], c_b[kMaxBatch], in_b[kMaxBatch];
  double alpha, beta;
  int64_t quads;     // four neighbours in a row of c are 16 bytes of floats
  int64_t depth;     // of k that one block takes: all of it, or a part
  uint64_t partial;  // where parts go, [part, m, n] of the compute type; 0: there is one part
};

}  // namespace strata::cuda
