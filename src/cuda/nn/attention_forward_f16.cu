// ptx: compute_80
// Attention of float16 tensors on tensor cores; see attention_forward.cuh.
#include "cuda/nn/attention_forward.cuh"

namespace strata::cuda::attention {

STRATA_ATTENTION_FORWARDS(false)

}  // namespace strata::cuda::attention
