// ptx: compute_80
// Gradients of attention of bfloat16 tensors on tensor cores; see attention_backward.cuh.
#include "cuda/nn/attention_backward.cuh"

namespace strata::cuda::attention {

STRATA_ATTENTION_BACKWARDS(true)

}  // namespace strata::cuda::attention
