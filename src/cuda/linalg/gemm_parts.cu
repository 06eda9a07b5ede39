// ptx: compute_90a
// Products of 16-bit floats on Hopper whose tiles do not fill the GPU: parts of the sums go to separate tiles, and a second
// launch adds them, always in the same order. Bound: one read of the factors by all multiprocessors, and the parts, which
// stay in L2.
#include "cuda/common/dtypes.cuh"
#include "cuda/linalg/gemm_floats.cuh"

namespace strata::cuda::hopper {

#define STRATA_PARTS(type, bf16, shape_name, shape)                                                                   \
  STRATA_FLOAT_GEMM(type##_##shape_name##_nn, gemm_parts, shape, Wgmma<shape.n, bf16, true, true>, true, true, Parts) \
  STRATA_FLOAT_GEMM(type##_##shape_name##_nt, gemm_parts, shape, Wgmma<shape.n, bf16, true, false>, true, false, Parts)
STRATA_PARTS(bf16, true, square, kSquare)
STRATA_PARTS(bf16, true, medium, kMedium)
STRATA_PARTS(f16, false, square, kSquare)
STRATA_PARTS(f16, false, medium, kMedium)

// Four results of a thread, or one.
extern "C" __global__ void __launch_bounds__(kFoldThreads) fold_parts(const __grid_constant__ FoldArgs args) {
  const GemmArgs& g = args.gemm;
  const int each = args.quads ? 4 : 1;
  const int64_t size = int64_t(g.m) * g.n, i = (int64_t(blockIdx.x) * kFoldThreads + threadIdx.x) * each;
  if (i >= size) return;
  float sums[4] = {}, more[4] = {};
  const float* part = reinterpret_cast<const float*>(args.partial) + i;
#pragma unroll 4
  for (int p = 0; p < args.parts; ++p, part += size) {
    if (args.quads) {
      const float4 four = *reinterpret_cast<const float4*>(part);
      sums[0] += four.x;
      sums[1] += four.y;
      sums[2] += four.z;
      sums[3] += four.w;
    } else {
      sums[0] += *part;
    }
  }
  const int64_t m = i / g.n, n = i % g.n;
  if (g.addend != kAddNothing) {
    const void* in = element(g.in, args.type, g.addend == kAddRow ? n : m * g.in_ld + n);
    if (args.quads) load_common<float>(in, args.type, more);
    else more[0] = load<float>(in, args.type);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) sums[e] = sums[e] * g.alpha + g.beta * more[e];
  void* d = const_cast<void*>(element(g.d, args.type, m * g.d_ld + n));
  if (args.quads) store_common<float>(d, args.type, sums);
  else store<float>(d, args.type, sums[0]);
}

}  // namespace strata::cuda::hopper
