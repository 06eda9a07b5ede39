// ptx: compute_80
// Convolutions of bfloat16 on tensor cores; see convolution_mma.cuh.
#include "cuda/nn/convolution_mma.cuh"

namespace strata::cuda::mma {

STRATA_CONV_MMAS(true)

}  // namespace strata::cuda::mma
