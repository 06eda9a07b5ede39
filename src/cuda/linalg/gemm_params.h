// Parameters of a matrix-product kernel; shared with device code, so plain types only.
#pragma once
#include "device/product.h"

namespace strata::cuda {

constexpr int kGemmTile = 64, kGemmDepth = 16;  // rows and columns of c per block, and depth of k per step

// c = alpha * a b + beta * in, for a batch of matrices. `in` broadcasts by strides of 0: a bias has one row.
struct GemmParams : Product {
  uint64_t a, b, c, in;  // in may be 0: nothing is added
  int32_t a_type, b_type, c_type, in_type;
  int64_t in_m, in_n, in_b[kMaxBatch];  // strides in elements
  int64_t batches;
  double beta;
  int64_t quads;     // four consecutive floats in a row of c are 16 aligned bytes
  int64_t depth;     // depth of k per block: all of it, or a part
  uint64_t partial;  // destination of parts, [part, m, n] of the compute type; 0: there is one part
};

}  // namespace strata::cuda
