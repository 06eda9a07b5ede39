// Attention and its gradients for 16-bit floats on Hopper (sm_90a): wgmma and TMA. The mathematics is that of
// attention_forward.cuh and attention_backward.cuh.
//
// A block has one warpgroup that loads, of which a single thread works, and two or three that multiply, with 64 rows
// each. The rows that a block owns are loaded once; tiles of two other matrices pass through stages of shared memory.
// The weights never leave the registers: they are the left factor of the second product. While a warpgroup computes
// exponentials, another one's products run. In the forward kernel they take turns, and a warpgroup computes the
// exponentials of a tile while the values of the previous one are multiplied.
#pragma once
#include "cuda/nn/attention_hopper_backward.cuh"
#include "cuda/nn/attention_hopper_forward.cuh"

namespace strata::cuda::attention {

template <HopperShape kShape, class Kernel>
__device__ __forceinline__ void run_hopper(const Params& p, const Maps& maps) {
  extern __shared__ __align__(1024) char memory[];
  const uint32_t base = shared_address(memory);
  if (base % 1024 != 0) __trap();  // a swizzle atom has 1024 bytes; holds while nothing else here is __shared__
  const Block<kShape> block{base};
  const Kernel kernel{p, block};
  block.start();
  const int group = threadIdx.x / 128;
  if (group == 0) {
    registers_give_back<(kShape.groups == 2 ? 24 : 32)>();
    if (threadIdx.x == 0) kernel.load(maps);
  } else {
    registers_take<(kShape.groups == 2 ? 240 : 160)>();
    kernel.multiply(memory, group - 1);
  }
}

#define STRATA_ATTENTION_HOPPER(name, shape, kernel, bf16, a, b, c, d)                              \
  extern "C" __global__ void __launch_bounds__(shape.threads, 1)                                    \
    name(const __grid_constant__ TensorMap kept_a, const __grid_constant__ TensorMap kept_b,        \
         const __grid_constant__ TensorMap first, const __grid_constant__ TensorMap second,         \
         const __grid_constant__ Params p) {                                                        \
    run_hopper<shape, kernel<bf16, shape>>(p, {kept_a, kept_b, first, second, p.a, p.b, p.c, p.d}); \
  }
#define STRATA_ATTENTION_HOPPERS(bf16)                                                            \
  STRATA_ATTENTION_HOPPER(forward_64, kHopperForward64, HopperForward, bf16, q, q, k, v)          \
  STRATA_ATTENTION_HOPPER(forward_tall_64, kHopperForwardTall64, HopperForward, bf16, q, q, k, v) \
  STRATA_ATTENTION_HOPPER(forward_128, kHopperForward128, HopperForward, bf16, q, q, k, v)        \
  STRATA_ATTENTION_HOPPER(query_64, kHopperQuery64, HopperQueryGrad, bf16, q, grad, k, v)         \
  STRATA_ATTENTION_HOPPER(query_128, kHopperQuery128, HopperQueryGrad, bf16, q, grad, k, v)       \
  STRATA_ATTENTION_HOPPER(key_value_64, kHopperKey64, HopperKeyGrad, bf16, k, v, q, grad)         \
  STRATA_ATTENTION_HOPPER(key_value_128, kHopperKey128, HopperKeyGrad, bf16, k, v, q, grad)

}  // namespace strata::cuda::attention
