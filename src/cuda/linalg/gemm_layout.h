// Describes a product in the form that tensor-core kernels and cuBLASLt need: the rows of the result are dense, and
// each factor is dense along one dimension.
#pragma once
#include "cuda/linalg/gemm.h"

namespace strata::cuda {

// One factor. along_k: k is the dense dimension. ld: leading dimension, in elements.
struct Factor {
  bool along_k;
  int64_t ld;
  uint64_t address;
};

// The kind of addend: the tensor that is added to the product before rounding.
enum class Addend : uint8_t {
  None,
  Row,      // one dense row that is added to all rows of the result (a bias), with beta = 1
  Matrix,   // a matrix with dense rows
  General,  // any strides
};

// The batch has at most kBatchDims dimensions, outer first; sizes are 1 where there are fewer. Strides are in elements.
struct GemmLayout {
  static constexpr int kBatchDims = 2;
  int64_t m, n, k;
  Factor a, b;
  int64_t c_ld, in_m, in_n;
  uint64_t c, in;
  Addend addend;
  int64_t batch[kBatchDims], a_b[kBatchDims], b_b[kBatchDims], c_b[kBatchDims], in_b[kBatchDims];
  double alpha, beta;  // beta is 0 where nothing is added
};

// Fills in `out`, or returns the reason why the product does not have that form. If only the columns of the result are
// dense, `out` describes the transposed product.
const char* lay_out(const GemmCall& g, GemmLayout& out);

// Whether 32-bit integers suffice for the sizes and for the number of 16-byte vectors of a factor.
bool fits_32_bits(const GemmLayout& l);

// For an addend with general strides: copies it into the result and makes `l` read it from there.
void copy_addend(const GemmCall& g, GemmLayout& l);

}  // namespace strata::cuda
