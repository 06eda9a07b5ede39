// ptx: compute_90a
// Products of float32 matrices on Hopper's tensor cores, which read the upper 19 bits of each number. Both factors are
// dense along k, and count as 16-bit matrices of twice the depth. Bound: half the rate of 16-bit floats.
#include "cuda/linalg/gemm_floats.cuh"
#include "cuda/linalg/wgmma_along_k.cuh"

namespace strata::cuda::hopper {

#define STRATA_TF32(name, shape) \
  STRATA_FLOAT_GEMM(name, gemm_floats, shape, WgmmaAlongK<shape.n, KFormat::TF32>, true, true)
STRATA_TF32(huge, kHuge)
STRATA_TF32(large, kLarge)
STRATA_TF32(medium, kMedium)
STRATA_TF32(flat, kFlat)

STRATA_FLOAT_GEMM(parts_square, gemm_parts, kSquare, WgmmaAlongK<kSquare.n, KFormat::TF32>, true, true, Parts)
STRATA_FLOAT_GEMM(parts_medium, gemm_parts, kMedium, WgmmaAlongK<kMedium.n, KFormat::TF32>, true, true, Parts)

}  // namespace strata::cuda::hopper
