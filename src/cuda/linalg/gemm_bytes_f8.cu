// ptx: compute_90a
// Products of float8 matrices on Hopper; see gemm_bytes.cuh.
#include "cuda/linalg/gemm_bytes.cuh"

namespace strata::cuda::hopper {

STRATA_BYTE_GEMMS(e4m3, gemm_scaled, E4M3)
// Mixed formats are used by gradients: large products.
STRATA_BYTE_GEMM(large_e4m3_e5m2, kLarge, gemm_scaled, E4M3TimesE5M2)
STRATA_BYTE_GEMM(medium_e4m3_e5m2, kMedium, gemm_scaled, E4M3TimesE5M2)
STRATA_BYTE_GEMM(large_e5m2_e4m3, kLarge, gemm_scaled, E5M2TimesE4M3)
STRATA_BYTE_GEMM(medium_e5m2_e4m3, kMedium, gemm_scaled, E5M2TimesE4M3)

}  // namespace strata::cuda::hopper
