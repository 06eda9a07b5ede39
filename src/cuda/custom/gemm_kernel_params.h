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

// c = epilogue(a b), for a batch of matrices.
struct KernelParams : Product {
  uint64_t a, b, c;
  int64_t batches;
  int32_t wide_stores;  // rows of c are dense and begin at multiples of 16 bytes
  Extra extras[kMaxExtras];
};

}  // namespace strata::gemm
