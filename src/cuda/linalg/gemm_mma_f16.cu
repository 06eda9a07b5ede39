// ptx: compute_80
// Products of float16 matrices on tensor cores; see gemm_mma.cuh.
#include "cuda/linalg/gemm_mma.cuh"

namespace strata::cuda::mma {

STRATA_MMA_GEMMS(false)

}  // namespace strata::cuda::mma
