// ptx: compute_90a
// Attention of bfloat16 tensors on Hopper; see attention_hopper.cuh.
#include "cuda/nn/attention_hopper.cuh"

namespace strata::cuda::attention {

STRATA_ATTENTION_HOPPERS(true)

}  // namespace strata::cuda::attention
