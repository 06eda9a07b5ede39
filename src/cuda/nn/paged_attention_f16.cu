// ptx: compute_80
// Paged attention of float16 tensors on tensor cores; see paged_attention.cuh.
#include "cuda/nn/paged_attention.cuh"

namespace strata::cuda::attention {

STRATA_PAGED_ATTENTIONS(false)

}  // namespace strata::cuda::attention
