// ptx: compute_90a
// Products of int8 matrices on Hopper; see gemm_bytes.cuh.
#include "cuda/linalg/gemm_bytes.cuh"

namespace strata::cuda::hopper {

STRATA_BYTE_GEMMS(s8, gemm_integers, S8)

}  // namespace strata::cuda::hopper
