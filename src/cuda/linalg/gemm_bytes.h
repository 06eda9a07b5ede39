// Products of 8-bit matrices on Hopper's tensor cores (gemm_bytes.cuh) and by cuBLASLt.
#pragma once
#include "cuda/linalg/gemm_layout.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

// d = scale_a * scale_b * a b + bias, for matrices of any strides. Integers have no scales.
struct ByteProduct {
  const TensorImpl &a, &b;
  const TensorImpl *scale_a, *scale_b,
    *bias;       // dense float32 scales: one number each, or one per row of a and column of b
  Tensor d;      // int32; float32, bfloat16 or float16
  bool by_rows;  // the kind of scales, if known
  bool known;    // both are numbers, or both are of rows; integers have none
  bool fast;     // floats: sums may be less exact
};

// The product in units of two bytes, with factors that are dense along k and aligned. Factors of another form are copied
// to the workspace; without a stream (while planning) it is only counted. Returns the reason if there is no such form.
const char* lay_out_bytes(const ByteProduct& p, Workspace& space, const Stream* stream, GemmLayout& out);

// For the shapes that were measured to be faster than with cuBLASLt, on an H200 (bench/results/gemm_bytes.md).
const char* plan_bytes_hopper_ahead(const ByteProduct& p, Plan& plan);
// For all that it can do.
const char* plan_bytes_hopper(const ByteProduct& p, Plan& plan);
void run_bytes_hopper(const ByteProduct& p, const Call& c, const Plan& plan);

const char* plan_bytes_cublaslt(const ByteProduct& p, Plan& plan);
void run_bytes_cublaslt(const ByteProduct& p, const Call& c, const Plan& plan);

}  // namespace strata::cuda
