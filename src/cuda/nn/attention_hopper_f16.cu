// ptx: compute_90a
// Attention of float16 tensors on Hopper; see attention_hopper.cuh.
#include "cuda/nn/attention_hopper.cuh"

namespace strata::cuda::attention {

STRATA_ATTENTION_HOPPERS(false)

}  // namespace strata::cuda::attention
