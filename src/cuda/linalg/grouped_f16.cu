// ptx: compute_80
// Grouped products of float16 matrices on tensor cores; see grouped.cuh.
#include "cuda/linalg/grouped.cuh"

namespace strata::cuda::grouped {

STRATA_GROUPED_ALL(strata_half)

}  // namespace strata::cuda::grouped
