// ptx: compute_90a
// Products of bfloat16 matrices on Hopper; see gemm_hopper.cuh.
#include "cuda/linalg/gemm_hopper.cuh"

namespace strata::cuda::hopper {

STRATA_HOPPER_GEMMS(true)

}  // namespace strata::cuda::hopper
