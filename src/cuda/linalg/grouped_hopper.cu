// ptx: compute_90a
// Grouped products on Hopper; see grouped_hopper.cuh.
#include "cuda/linalg/grouped_hopper.cuh"

namespace strata::cuda::hopper {

STRATA_GROUPED_HOPPER_ALL(f16, false)
STRATA_GROUPED_HOPPER_ALL(bf16, true)

}  // namespace strata::cuda::hopper
