// Parameters of product kernels with an epilogue of the user; compiled by both compilers, so plain types only.
#pragma once
#include "device/product.h"

namespace strata::gemm {

constexpr int kMaxExtras = 8;

// A tensor or a number that an epilogue reads. Sizes and strides are in elements; a vector uses the first of each.
struct Extra {
  uint64_t data;  // 0: a number, `value`
  int64_t size[2], stride[2], batch[Product::kMaxBatch];
  double value;
};

// A matrix that is written. Strides are in elements.
struct Output {
  uint64_t data;
  int64_t m, n;
  int32_t pairs;  // two neighbours in a row are aligned to their size
};

// c = epilogue(a b), for a batch of matrices. Factors on tensor cores that are not of 16-bit floats are in units of two
// bytes: k and their strides are too.
struct KernelParams : Product {
  uint64_t a, b, c;
  int64_t batches;
  int32_t wide_stores, second_wide;  // rows of 16-bit results are dense and begin at multiples of 16 bytes
  int32_t pairs;                     // of c, as in Output
  Output second;                     // of the second epilogue, if there is one
  int64_t second_b[kMaxBatch];
  uint64_t amax;  // float: the largest |result|, or 0: not wanted
  Extra extras[kMaxExtras];
};

}  // namespace strata::gemm
