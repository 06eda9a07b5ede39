// ptx: compute_80
// Attention of bfloat16 tensors on tensor cores; see attention_forward.cuh.
#include "cuda/nn/attention_forward.cuh"

namespace strata::cuda::attention {

STRATA_ATTENTION_FORWARDS(true)

}  // namespace strata::cuda::attention
