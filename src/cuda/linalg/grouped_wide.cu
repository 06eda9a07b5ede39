// ptx: compute_80
// Grouped products of float and double matrices, without tensor cores; see grouped.cuh.
#include "cuda/linalg/grouped.cuh"

namespace strata::cuda::grouped {

STRATA_GROUPED(f32, float, true, false, kGroupedSmall, 0)
STRATA_GROUPED(f64, double, true, false, kGroupedSmall, 0)

}  // namespace strata::cuda::grouped
