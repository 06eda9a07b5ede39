// Convolutions with a kernel of one element and stride 1, which are matrix products of the tensors as they are.
#pragma once
#include "cuda/linalg/gemm.h"
#include "cuda/nn/convolution.h"

namespace strata::cuda {

// Whether each result depends on one position only: a kernel of one element, stride 1, no padding and one group.
bool is_pointwise(const ConvShape& s);
// Describes the convolution as a product, or returns the reason why it is not one.
const char* as_product(const ConvCall& v, GemmCall& g);

// The kernels of matrix products, plan_gemm_… and run_gemm_…, where they are as fast as cuDNN. In channels-first order
// the planes of an image must be large enough for whole tiles: those of 7x7 are not.
template <auto plan_gemm> const char* plan_convolution_large_product(const ConvCall& v, Plan& plan) {
  constexpr int64_t kLeastPositions = 128;
  GemmCall g{};
  if (const char* reason = as_product(v, g)) return reason;
  if (g.params.batch_dims && g.params.m < kLeastPositions) return "the planes of an image are small";
  return plan_gemm(g, plan);
}
// The same without libraries. These kernels do not split long sums over multiprocessors, so they are not used for the
// gradient of the weight.
template <auto plan_gemm> const char* plan_convolution_product(const ConvCall& v, Plan& plan) {
  GemmCall g{};
  if (const char* reason = as_product(v, g)) return reason;
  if (v.mode == ConvMode::Weight) return "the sums over all positions would be computed by few multiprocessors";
  return plan_gemm(g, plan);
}
template <auto run_gemm> void run_convolution_product(const ConvCall& v, const Call& c, const Plan& plan) {
  GemmCall g{};
  as_product(v, g);
  run_gemm(g, c, plan);
}

}  // namespace strata::cuda
