// ptx: compute_80
// Grouped products of bfloat16 matrices on tensor cores; see grouped.cuh.
#include "cuda/linalg/grouped.cuh"

namespace strata::cuda::grouped {

STRATA_GROUPED_ALL(strata_bfloat16)

}  // namespace strata::cuda::grouped
